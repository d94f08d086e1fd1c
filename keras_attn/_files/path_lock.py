"""Lock of the files of a training, for one process at a time."""

import contextlib
import json
import os
import socket
from os import PathLike
from pathlib import Path
from typing import Self

import filelock

from keras_attn._files.checkpoint_file import require_directory
from keras_attn._files.working_directory import short_name


class PathLock:
    """Locks a directory or a file against other trainings until it is released.

    The operating system releases the lock when the process ends for any reason. The lock file
    remains. A file next to it names the process that holds the lock.

    Args:
        path: Path of a directory or a file. It need not exist; `acquire` creates the directory.
        name: String, purpose of the lock. Locks with different names are independent.
        is_file: Bool, whether `path` is a file. Defaults to `False`.

    Example:

    >>> import tempfile
    >>> with PathLock(tempfile.mkdtemp(), "training") as lock:
    ...     lock.is_held
    True
    """

    def __init__(self, path: str | PathLike[str], name: str, is_file: bool = False) -> None:
        self.path = Path(path)
        self.name = short_name(name)
        self.is_file = is_file
        self._lock = None

    @property
    def is_held(self) -> bool:
        """Bool, whether this object holds the lock."""
        return self._lock is not None

    def acquire(self) -> bool:
        """Acquires the lock.

        Returns:
            Bool, `True` if it was acquired now, `False` if this object held it already.

        Raises:
            RuntimeError: If another process, or another training of this process, holds it.
            OSError: If the directory is not writable.
        """
        if self.is_held:
            return False
        folder = self.path.parent if self.is_file else self.path
        require_directory(folder)
        holder = folder / f".{self.name}.lock.json"
        # Not thread-local, because Keras may end a training in another thread.
        lock = filelock.FileLock(folder / f".{self.name}.lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise RuntimeError(
                "Expected a path that no other training uses. "
                f"Received: path={str(self.path)!r}, which {_process(holder)} uses. Wait until it "
                "ends, or choose another path."
            ) from error
        self._lock, self._holder = lock, holder
        with contextlib.suppress(OSError):  # a full disk; the lock is valid without it
            holder.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        return True

    def release(self) -> None:
        """Releases the lock if this object holds it."""
        if self._lock is not None:
            with contextlib.suppress(OSError):  # the directory may be gone
                self._holder.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def _process(holder):
    """Returns a description of the process that holds a lock."""
    try:
        facts = json.loads(holder.read_text())
        return f"process {facts['process']} on host {facts['host']!r}"
    except (OSError, ValueError, KeyError, TypeError):  # not written yet
        return "another process"
