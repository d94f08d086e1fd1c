"""Opens exported files with the engine for their format, and verifies their checksums."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._engines.create_sessions import create_sessions
from keras_attn_runtime._engines.engine_session import EngineSession
from keras_attn_runtime._engines.litert_session import (
    create_litert_sessions,
    require_cpu,
    require_litert,
)
from keras_attn_runtime._engines.onnx_session import OnnxSession
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.file_checksum import (
    WEIGHTS_KEY,
    load_unchanged,
    verify_file_checksum,
    verify_weights_checksum,
    weights_of,
)
from keras_attn_runtime._file_format.litert_container import LiteRTContainer, is_litert_file
from keras_attn_runtime._file_format.metadata_checksum import verify_checksum
from keras_attn_runtime._files.foreign_files import describe_foreign

if TYPE_CHECKING:
    import onnxruntime

T = TypeVar("T")
ReadSettings: TypeAlias = Callable[[Mapping[str, str], Sequence[str]], T]


@dataclass(frozen=True)
class OpenedModel(Generic[T]):
    """A loaded model file.

    Attributes:
        sessions: list of `EngineSession`s.
        metadata: dict of strings.
        settings: the settings in the file.
        files: list of paths: the file and, if present, its external weights.
    """

    sessions: Sequence[EngineSession]
    metadata: dict[str, str]
    settings: T
    files: list[Path]


def open_model(
    path: str | PathLike[str],
    read_settings: ReadSettings[T],
    providers: Providers | None = None,
    num_threads: int | None = None,
    num_sessions: int = 1,
) -> OpenedModel[T]:
    """Loads an ONNX file or a LiteRT file.

    Args:
        path: string or path, the file, or the directory with `model.onnx` and its weights.
        read_settings: function `(metadata, input_names)` that returns the settings. `input_names`
            is empty for a LiteRT file. Only metadata in format 1 need the names, and LiteRT files
            start with format 2.
        providers: ONNX Runtime execution providers, see `create_session`. A LiteRT file runs on the
            CPU. Default: "cpu".
        num_threads: int in [1, 1024], number of threads per operator. Default: all cores.
        num_sessions: int of at least 1, number of sessions. Default: 1.

    Returns:
        `OpenedModel`.

    Raises:
        IsADirectoryError: if the directory contains no `model.onnx`.
        ModelFileError: if the file is damaged, not exported by keras_attn, or in a different
            format.
        ImportError: if the file's engine is not installed.
    """
    if is_litert_file(path):
        return _open_litert(Path(path), read_settings, providers, num_threads, num_sessions)
    return _open_onnx(Path(path), read_settings, providers, num_threads, num_sessions)


def _open_litert(
    path: Path,
    read_settings: ReadSettings[T],
    providers: Providers | None,
    num_threads: int | None,
    num_sessions: int,
) -> OpenedModel[T]:
    # The file is read only once, so that the loaded bytes are the verified bytes.
    container = LiteRTContainer.from_path(path)
    settings = read_settings(container.metadata, ())
    require_cpu(providers)
    require_litert()
    sessions = [
        session
        for _ in range(num_sessions)
        for session in create_litert_sessions(str(path), container.model, num_threads)
    ]
    return OpenedModel(sessions, container.metadata, settings, [path])


def _open_onnx(
    given: Path,
    read_settings: ReadSettings[T],
    providers: Providers | None,
    num_threads: int | None,
    num_sessions: int,
) -> OpenedModel[T]:
    path = _file(given)
    weights = weights_of(path)

    def load() -> tuple[list[OnnxSession], dict[str, str], T]:
        verify_file_checksum(path)
        inferences = create_sessions(path, providers, num_threads, num_sessions)
        sessions = [OnnxSession(inference) for inference in inferences]
        metadata = _metadata(inferences[0])
        settings = read_settings(metadata, [entry.name for entry in sessions[0].inputs])
        verify_checksum(metadata)
        verify_weights_checksum(path, metadata)
        return sessions, metadata, settings

    sessions, metadata, settings = load_unchanged(load, path, weights)
    # If a user edited the file and deleted its checksums, the weights' checksum is missing too.
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
    """Returns the ONNX file for a path that may be a directory."""
    if not path.is_dir():
        return path
    inside = path / "model.onnx"
    if inside.is_file():
        return inside
    foreign = describe_foreign(path) or "a directory without it. Give an ONNX file."
    raise IsADirectoryError(
        f"Expected a file, or a directory with model.onnx. Received: {str(path)!r}, {foreign}"
    )
