"""Temporary directories. If a process is killed, the next process removes its directories."""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path

import filelock

PREVIOUS = "previous"
"""Name of the final path's old content, once it has been moved to a working directory."""

_LOCK = "lock"
_PREFIX = ".partial-"
_LONGEST = 128
"""Maximum number of bytes in a name that becomes part of a temporary name. File systems allow names
of 143 to 255 bytes."""


@contextlib.contextmanager
def working_directory(
    path: str | PathLike[str], is_whole: Callable[[Path], bool]
) -> Iterator[Path]:
    """Context manager that creates a directory in the parent of `path`, and removes it afterwards.

    The directory has a unique name, so several processes can write the same path at the same time,
    even in containers, where processes can have the same id. The directory contains a lock. A held
    lock shows that the process is running, because the operating system releases it when the
    process ends. The next `working_directory` for the same path removes directories left by killed
    processes, if the file system supports locks.

    Args:
        path: Final path. Its parent directory must exist.
        is_whole: Function that takes `path` and returns whether its content is complete. If the
            content is incomplete after a block or process has ended, the old content, `PREVIOUS` in
            its working directory, is moved back to `path`.

    Yields:
        Path, the directory. Its name begins with `.partial-` and ends with the name of `path`, or
        with its checksum if it is long.
    """
    path = Path(path)
    _recover(path, is_whole)
    directory, lock = _create(path)
    try:
        yield directory
    finally:
        _clean_up(directory, path, is_whole)
        if lock is not None:
            with contextlib.suppress(OSError):
                lock.release()


def short_name(name: str) -> str:
    """Returns a name, or its checksum if it is too long for a part of a temporary name."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONGEST else hashlib.sha256(encoded).hexdigest()[:32]


def _create(path):
    """Creates a directory and acquires its lock. The lock is `None` if locks are not supported."""
    while True:
        directory = Path(tempfile.mkdtemp("-" + short_name(path.name), _PREFIX, path.parent))
        try:
            return directory, _acquire(directory)
        except (filelock.Timeout, FileNotFoundError, FileExistsError):
            # Another process removed the directory before it was locked, or replaced or removed the
            # lock file. Try again.
            continue
        except OSError:
            return directory, None


def _recover(path, is_whole):
    """Removes directories of processes that were killed while writing `path`."""
    pattern = re.compile(re.escape(_PREFIX) + "[^-]+-" + re.escape(short_name(path.name)))
    left = []
    with contextlib.suppress(PermissionError):  # a directory without read permission
        left = [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]
    for directory in left:
        # Skip directories of running processes and other users, and file systems without locks.
        with contextlib.suppress(filelock.Timeout, OSError):
            lock = _acquire(directory)
            try:
                _clean_up(directory, path, is_whole)
            finally:
                lock.release()


def _acquire(directory):
    """Acquires a working directory's lock.

    Raises:
        Timeout: If another process holds the lock.
        FileNotFoundError: If another process removed the directory. Depending on the time of the
            removal, `FileExistsError` is raised instead.
        FileExistsError: See `FileNotFoundError`.
        OSError: If the file system does not support locks.
    """
    lock = filelock.FileLock(directory / _LOCK, timeout=0, thread_local=False)
    lock.acquire()
    if not _is_at_its_path(lock, directory / _LOCK):
        lock.release()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
    return lock


def _is_at_its_path(lock, path):
    """Returns whether the locked file still exists and was not replaced."""
    # filelock has no public access to the file descriptor; the attribute is private since 3.11.
    # Without the descriptor, the function detects a removed lock file, but not one that another
    # process has created again.
    descriptor = getattr(getattr(lock, "_context", None), "lock_file_fd", None)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    return descriptor is None or os.path.samestat(os.fstat(descriptor), status)


def _clean_up(directory, path, is_whole):
    previous = directory / PREVIOUS
    if os.path.lexists(previous) and not is_whole(path):
        with contextlib.suppress(OSError):
            remove(path)
            os.rename(previous, path)
            flush_directory(path.parent)
    if not os.path.lexists(previous) or is_whole(path):
        remove(directory)


def remove(path: Path) -> None:
    """Removes a file or a directory if it exists. Errors in a directory are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Flushes a file, or all files of a directory, to disk.

    Some file systems only report a full disk at this point.
    """
    if path.is_file():
        _flush_file(path)
        return
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            if (Path(folder) / name).is_file():
                _flush_file(Path(folder) / name)
        flush_directory(folder)


def _flush_file(path):
    with open(path, "rb+") as stream:
        os.fsync(stream.fileno())


def flush_directory(path: str | PathLike[str]) -> None:
    """Flushes directory entries to disk if the system supports it."""
    if os.name == "nt":  # Windows cannot open directories.
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a directory without read permission
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by the file system
            raise
    finally:
        os.close(descriptor)
