"""Lock that lets only one process at a time write training files."""

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
    """Lock on a directory or a file that only one training at a time can hold.

    The operating system releases the lock when the process ends for any reason. The lock file
    remains in the directory afterwards. While the lock is held, a second file in the same directory
    contains the host name and the id of the process that holds it.

    Args:
        path: Path of a directory or a file. It may be missing; `acquire` creates the directory.
        name: String, lock name. Locks with different names are independent.
        is_file: Bool, whether `path` is a file. Defaults to `False`.

    Example:

    >>> import tempfile
    >>> from keras_attn.files import PathLock
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
            Bool, `True` if this call acquired the lock, `False` if this object already held it.

        Raises:
            RuntimeError: If another process, or another training in this process, holds the lock.
            OSError: If the directory is not writable.
        """
        if self.is_held:
            return False
        folder = self.path.parent if self.is_file else self.path
        require_directory(folder)
        holder = folder / f".{self.name}.lock.json"
        # The lock is not thread-local, because Keras may end a training in a different thread.
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
        with contextlib.suppress(OSError):  # e.g. a full disk; the lock does not need this file
            holder.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        return True

    def release(self) -> None:
        """Releases the lock if this object holds it."""
        if self._lock is not None:
            with contextlib.suppress(OSError):  # the directory may be removed
                self._holder.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def _process(holder):
    """Describes the process that holds a lock."""
    try:
        facts = json.loads(holder.read_text())
        return f"process {facts['process']} on host {facts['host']!r}"
    except (OSError, ValueError, KeyError, TypeError):  # not written yet
        return "another process"
