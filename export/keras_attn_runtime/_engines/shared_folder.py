"""A temporary folder for weights that several sessions map into memory."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "keras-attn-runtime-weights-"


@contextmanager
def shared_folder() -> Generator[Path, None, None]:
    """Yields the path of a new temporary folder, and removes the folder at the end.

    The folder is locked until then. If a process is killed before it has removed its folder, the
    lock ends with the process, and the next call of this function removes the folder.

    Raises:
        OSError: if the folder cannot be created, or its path is not valid UTF-8, which ONNX Runtime
            requires.
    """
    parent = Path(tempfile.gettempdir())
    for left in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder, _locked(Path(folder)):
        try:
            folder.encode()
        except UnicodeEncodeError as error:
            raise OSError(f"The path of the temporary folder is not UTF-8: {folder!r}") from error
        yield Path(folder)


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """Locks a folder; raises BlockingIOError if another process has locked it."""
    import fcntl  # not on Windows

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
