"""Temporary directories next to a file, which are cleaned up even after a kill."""

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
"""Name in a working directory of the content that was moved away from the final path."""

_LOCK = "lock"
_PREFIX = ".partial-"
_LONGEST = 128
"""Maximum number of bytes of a name that becomes part of another. File systems allow 255 or 143."""


@contextlib.contextmanager
def working_directory(
    path: str | PathLike[str], is_whole: Callable[[Path], bool]
) -> Iterator[Path]:
    """Creates a new directory next to `path` for a block, and removes it afterwards.

    Its name is unique, so that several processes can write the same path, also in containers in
    which all of them have the same process id. A lock inside of it shows that the process is
    running; the operating system releases the lock when the process ends. The next
    `working_directory` of the same path removes the directories of killed processes, unless the
    file system does not support locks.

    Args:
        path: Final path, in an existing directory.
        is_whole: Function of `path` that returns whether its content is complete. If it is not, the
            previous content is restored: the file `PREVIOUS` of a finished block or process.

    Yields:
        Path of the directory. Its name begins with `.partial-` and ends with the name of `path`, or
        with a checksum of a long name.
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
    """Returns a file name, or its checksum if it is too long to become part of another name."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONGEST else hashlib.sha256(encoded).hexdigest()[:32]


def _create(path):
    """Creates a directory and acquires its lock; `None` on a file system without locks."""
    while True:
        directory = Path(tempfile.mkdtemp("-" + short_name(path.name), _PREFIX, path.parent))
        try:
            return directory, _acquire(directory)
        except (filelock.Timeout, FileNotFoundError, FileExistsError):
            # Another process cleaned it up before it was locked. If that process replaces or
            # removes the lock in the meantime, filelock finds another file or none.
            continue
        except OSError:
            return directory, None


def _recover(path, is_whole):
    """Cleans up after processes that were killed while they wrote `path`."""
    pattern = re.compile(re.escape(_PREFIX) + "[^-]+-" + re.escape(short_name(path.name)))
    left = []
    with contextlib.suppress(PermissionError):  # a directory without read permission
        left = [each for each in path.parent.iterdir() if pattern.fullmatch(each.name)]
    for directory in left:
        # Skip directories of running processes and other users, and those without locks.
        with contextlib.suppress(filelock.Timeout, OSError):
            lock = _acquire(directory)
            try:
                _clean_up(directory, path, is_whole)
            finally:
                lock.release()


def _acquire(directory):
    """Acquires the lock of a working directory.

    Raises:
        Timeout: If another process holds it.
        FileNotFoundError: If another process has removed it.
        FileExistsError: If another process has removed it.
        OSError: If the file system does not support locks.
    """
    lock = filelock.FileLock(directory / _LOCK, timeout=0, thread_local=False)
    lock.acquire()
    if not _is_at_its_path(lock, directory / _LOCK):
        lock.release()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
    return lock


def _is_at_its_path(lock, path):
    """Returns whether the locked file still exists and was not replaced by another file."""
    # Private in filelock since 3.11, without public access to the descriptor. Without it, only a
    # removed lock is detected, and not a new lock of another process.
    descriptor = getattr(getattr(lock, "_context", None), "lock_file_fd", None)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return descriptor is None or os.path.samestat(os.fstat(descriptor), found)


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
    """Removes a file or a directory, if it exists, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Waits until a file, or all files of a directory, are written to disk.

    Some file systems report a full disk only here.
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
    """Waits until the names in a directory are written to disk, if the system supports it."""
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
