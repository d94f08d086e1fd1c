"""Opens `onnx-steps` and `litert-steps` exports: the steps of a search, without its loop."""

from os import PathLike
from pathlib import Path

from keras_attn_runtime._engines.create_session import Providers, create_session
from keras_attn_runtime._engines.litert_session import (
    STEPS,
    create_litert_sessions,
    require_cpu,
    require_litert,
)
from keras_attn_runtime._engines.onnx_session import OnnxSession
from keras_attn_runtime._engines.open_model import OpenedModel, open_model
from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import Settings
from keras_attn_runtime._file_format.file_checksum import KEY, load_unchanged, verify_file_checksum
from keras_attn_runtime._file_format.litert_container import LiteRTContainer, is_litert_file
from keras_attn_runtime._files.foreign_files import describe_foreign
from keras_attn_runtime._models.stepped_search import Sessions

FILES = tuple(f"{name}.onnx" for name in STEPS)


def open_steps(
    path: str | PathLike[str],
    providers: Providers | None = None,
    num_threads: int | None = None,
    num_sessions: int = 1,
) -> tuple[OpenedModel[Settings], list[Sessions]]:
    """Loads the three parts of a search.

    Args:
        path: string or path, the directory with `start.onnx`, `step.onnx` and `finish.onnx`, or the
            LiteRT file with the signatures `start`, `step` and `finish`.
        providers, num_threads, num_sessions: see `open_model`.

    Returns:
        Tuple of the `OpenedModel` for start, and a list of `num_sessions` tuples with the start,
        step and finish sessions.

    Raises:
        ModelFileError: if the path names a different kind of file, or a file is damaged, was not
            exported by keras_attn, has a different format, or does not belong to `start.onnx`.
        ImportError: if the files' engine is not installed.
    """
    if is_litert_file(path):
        return _open_litert(Path(path), providers, num_threads, num_sessions)
    return _open_onnx(Path(path), providers, num_threads, num_sessions)


def _open_litert(
    path: Path, providers: Providers | None, num_threads: int | None, num_sessions: int
) -> tuple[OpenedModel[Settings], list[Sessions]]:
    # The file is read only once, so that the loaded bytes are the verified bytes.
    container = LiteRTContainer.from_path(path)
    settings = Settings.from_metadata(container.metadata)
    require_cpu(providers)
    require_litert()
    searches: list[Sessions] = []
    for _ in range(num_sessions):
        start, step, finish = create_litert_sessions(str(path), container.model, num_threads, STEPS)
        searches.append((start, step, finish))
    starts = [start for start, _, _ in searches]
    return OpenedModel(starts, container.metadata, settings, [path]), searches


def _open_onnx(
    directory: Path, providers: Providers | None, num_threads: int | None, num_sessions: int
) -> tuple[OpenedModel[Settings], list[Sessions]]:
    _require_directory(directory)
    start, step, finish = (directory / name for name in FILES)

    def load() -> tuple[OpenedModel[Settings], list[Sessions]]:
        for path in (step, finish):
            verify_file_checksum(path)
        later = [
            [OnnxSession(create_session(path, providers, num_threads)) for path in (step, finish)]
            for _ in range(num_sessions)
        ]
        opened = open_model(start, Settings.from_metadata, providers, num_threads, num_sessions)
        for name, session in zip(FILES[1:], later[0], strict=True):
            _require_same_export(name, session, opened.metadata)
        return opened, [
            (first, second, third)
            for first, (second, third) in zip(opened.sessions, later, strict=True)
        ]

    return load_unchanged(load, start, step, finish)


def _require_directory(directory: Path) -> None:
    expected = (
        f"Expected a directory with {', '.join(FILES)}, or a LiteRT file with these steps. "
        f"Received: {str(directory)!r}"
    )
    if directory.is_file():
        advice = "Use `Translator`, or export it with `onnx-steps`."
        raise ModelFileError(f"{expected}, {describe_foreign(directory) or f'a file. {advice}'}")
    if directory.is_dir() and not (directory / FILES[0]).exists():
        received = describe_foreign(directory) or "a directory without them."
        raise FileNotFoundError(f"{expected}, {received}")


def _require_same_export(name: str, session: OnnxSession, metadata: dict[str, str]) -> None:
    expected = metadata.get(KEY)  # None if a user edited the file and deleted its checksum
    received = session.inference.get_modelmeta().custom_metadata_map.get("keras_attn.start")
    if received is None or expected not in (None, received):
        raise ModelFileError(
            f"Expected a {name} of the same export as start.onnx, with the checksum {expected!r}. "
            f"Received: checksum={received!r}. Export them again, with `keras-attn export "
            "onnx-steps`."
        )
