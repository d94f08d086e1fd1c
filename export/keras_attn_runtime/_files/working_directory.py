"""Temporary directories. If a process is killed, the next process removes its directory."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def working_directory(parent: Path, name: str) -> Generator[Path, None, None]:
    """Context manager that creates a temporary directory, and removes it afterwards.

    Its name begins with `.partial-`, so that other programs do not take its content for a result.
    The directory is locked while the process runs. The operating system releases a killed process's
    lock, and the next call for the same name removes the directory.

    Args:
        parent: path of an existing directory, on the same file system as the final path.
        name: string, name of the final path.

    Yields:
        Path, the directory, which only this process writes.
    """
    _remove_leftovers(parent, name)
    directory, lock = _create(parent, name)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _create(parent: Path, name: str) -> tuple[Path, int | None]:
    while True:
        # A random name, because processes in different containers can have the same process id.
        directory = Path(tempfile.mkdtemp(f"-{_short(name)}", ".partial-", parent))
        try:
            return directory, _lock(directory)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process removed the directory before it was locked
        except OSError:
            return directory, None  # the file system does not support locks


def _short(name: str) -> str:
    """Returns the name, or its hash if it is too long for a part of a directory name."""
    return name if len(os.fsencode(name)) <= 128 else hashlib.sha256(os.fsencode(name)).hexdigest()


def _remove_leftovers(parent: Path, name: str) -> None:
    """Removes directories left by killed processes."""
    entries = list(parent.iterdir()) if os.access(parent, os.R_OK) else []
    for directory in entries:
        if not re.fullmatch(rf"\.partial-[^-]+-{re.escape(_short(name))}", directory.name):
            continue
        try:
            lock = _lock(directory)
        except OSError:  # used by a running process or another user, or removed meanwhile
            continue
        if lock is not None:
            shutil.rmtree(directory, ignore_errors=True)
            os.close(lock)


def _lock(directory: Path) -> int | None:
    """Returns a descriptor that locks a directory until the process ends.

    Returns:
        The descriptor, or `None` on Windows, which cannot lock directories.

    Raises:
        BlockingIOError: if another process has locked the directory.
        FileNotFoundError: if the directory does not exist.
        OSError: if the file system does not support locks.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(directory)  # the directory may have been removed before it was locked
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
