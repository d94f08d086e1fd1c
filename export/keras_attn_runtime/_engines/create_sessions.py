import contextlib
import os
import re
from os import PathLike
from typing import TYPE_CHECKING

from keras_attn_runtime._engines.create_session import (
    Providers,
    create_session,
    read_providers,
    require_onnxruntime,
)
from keras_attn_runtime._engines.shared_folder import shared_folder
from keras_attn_runtime._errors import ModelFileError

if TYPE_CHECKING:
    import onnxruntime


SHARING_RELEASE = (1, 32)
"""First release of ONNX Runtime whose sessions can share weights. Release 1.31 crashes if weights
belong to an LSTM, and earlier releases do not load such files."""


def create_sessions(
    path: str | PathLike[str],
    providers: Providers | None = None,
    num_threads: int | None = None,
    num_sessions: int = 1,
) -> "list[onnxruntime.InferenceSession]":
    """Loads an ONNX file several times, with one copy of the weights on the CPU.

    ONNX Runtime copies the weights for each session. Therefore a first session writes its optimized
    model to a temporary folder, and all returned sessions map this file into memory. The folder is
    deleted at the end; the operating system keeps the mapped pages. Each session has a
    copy of the weights on Windows, which cannot delete a mapped file, with releases of ONNX Runtime
    that cannot run such files (`SHARING_RELEASE`), and if the file cannot be written.

    Args:
        path, providers, num_threads: see `create_session`.
        num_sessions: int of at least 1, number of sessions. Default: 1.

    Returns:
        List of `onnxruntime.InferenceSession`s.

    Raises:
        Exception: see `create_session`.
    """
    if num_sessions > 1 and _are_cpu(providers) and can_share_weights():
        with contextlib.suppress(OSError, ModelFileError):
            return _create_sharing(path, num_threads, num_sessions)
    return [create_session(path, providers, num_threads) for _ in range(num_sessions)]


def can_share_weights() -> bool:
    """Returns whether this system and this release of ONNX Runtime can share weights."""
    require_onnxruntime()
    import onnxruntime

    release = tuple(map(int, re.findall(r"\d+", onnxruntime.__version__)[:2]))
    return os.name == "posix" and release >= SHARING_RELEASE


def _are_cpu(providers: Providers | None) -> bool:
    return providers is None or [name for name, _ in read_providers(providers)] == ["cpu"]


def _create_sharing(
    path: str | PathLike[str], num_threads: int | None, num_sessions: int
) -> "list[onnxruntime.InferenceSession]":
    with shared_folder() as folder:
        optimized = folder / "model.onnx"
        create_session(path, num_threads=num_threads, optimized_path=optimized)
        return [create_session(optimized, num_threads=num_threads) for _ in range(num_sessions)]
