"""Opens an ONNX file exported by keras_attn, and verifies its checksums."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from keras_attn_runtime.checksum import verify_checksum
from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_checksum import (
    WEIGHTS_KEY,
    load_unchanged,
    verify_file_checksum,
    verify_weights_checksum,
    weights_of,
)
from keras_attn_runtime.foreign_files import describe_foreign
from keras_attn_runtime.session import Providers, create_session

if TYPE_CHECKING:
    import onnxruntime

T = TypeVar("T")


@dataclass(frozen=True)
class OpenedModel(Generic[T]):
    """An ONNX file that is loaded.

    Attributes:
        sessions: list of sessions.
        metadata: dict of strings.
        settings: the settings of the file.
        files: list of paths: the ONNX file and, if present, the file of its external weights.
    """

    sessions: "list[onnxruntime.InferenceSession]"
    metadata: dict[str, str]
    settings: T
    files: list[Path]


def open_model(
    path: str | PathLike[str],
    read_settings: "Callable[[onnxruntime.InferenceSession, dict[str, str]], T]",
    providers: Providers | None = None,
    num_threads: int | None = None,
    num_sessions: int = 1,
) -> OpenedModel[T]:
    """Loads an ONNX file.

    Args:
        path: string or path of the file, or of the directory with `model.onnx` and its weights.
        read_settings: function of a session and the metadata that returns the settings.
        providers, num_threads: see `create_session`.
        num_sessions: int of at least 1, number of sessions. Default: 1.

    Returns:
        `OpenedModel`.

    Raises:
        IsADirectoryError: if the directory has no `model.onnx`.
        ModelFileError: if the file is damaged, not exported by keras_attn, or of another format.
    """
    given, path = Path(path), _file(Path(path))
    weights = weights_of(path)

    def load() -> "tuple[list[onnxruntime.InferenceSession], dict[str, str], T]":
        verify_file_checksum(path)
        sessions = [create_session(path, providers, num_threads) for _ in range(num_sessions)]
        metadata = _metadata(sessions[0])
        settings = read_settings(sessions[0], metadata)
        verify_checksum(metadata)
        verify_weights_checksum(path, metadata)
        return sessions, metadata, settings

    sessions, metadata, settings = load_unchanged(load, path, weights)
    # If a user edited the file and deleted its checksums, the weights have no checksum either.
    has_weights = WEIGHTS_KEY in metadata or (given != path and weights.is_file())
    files = [path, weights] if has_weights else [path]
    return OpenedModel(sessions, metadata, settings, files)


def _metadata(session: "onnxruntime.InferenceSession") -> dict[str, str]:
    try:
        return session.get_modelmeta().custom_metadata_map
    except UnicodeDecodeError as error:
        raise ModelFileError(
            f"The metadata of the file is not text ({error}). The file is damaged; export it again."
        ) from error


def _file(path: Path) -> Path:
    """Returns the ONNX file of a path that may be a directory."""
    if not path.is_dir():
        return path
    inside = path / "model.onnx"
    if inside.is_file():
        return inside
    foreign = describe_foreign(path) or "a directory without it. Give an ONNX file."
    raise IsADirectoryError(
        f"Expected a file, or a directory with model.onnx. Received: {str(path)!r}, {foreign}"
    )
