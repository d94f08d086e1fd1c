"""A temporary directory next to a file, which is cleaned up even if its process is killed."""

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
"""Name in a working directory of what was moved away from the final path."""

_LOCK = "lock"
_PREFIX = ".partial-"
_LONGEST = 128
"""Bytes of a name to which others can be added: file systems take 255, some of them 143."""


@contextlib.contextmanager
def working_directory(
    path: str | PathLike[str], is_whole: Callable[[Path], bool]
) -> Iterator[Path]:
    """Makes a new directory next to `path` for the time of the block, and removes it afterwards.

    Its name is unique, so that several processes can write the same path, also in containers in
    which all of them have the same process id. A lock shows that its process lives; a kill releases
    it. The next `working_directory` of the same path removes what killed processes left, unless the
    file system has no locks.

    Args:
        path: the final path, in an existing directory.
        is_whole: function of `path` that returns whether there is something to keep. If not, and
            there is a `PREVIOUS` in a working directory that has no process anymore or whose block
            has ended, that is moved to `path`.

    Yields:
        Path of the directory. Its name begins with `.partial-` and ends with the name of `path`, or
        its checksum if it is long.
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
    """Returns a file's name, or its checksum if it is too long to become part of another name."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= _LONGEST else hashlib.sha256(encoded).hexdigest()[:32]


def _create(path):
    """A new directory and its lock, which is held; `None` on a file system without locks."""
    while True:
        directory = Path(tempfile.mkdtemp("-" + short_name(path.name), _PREFIX, path.parent))
        try:
            return directory, _acquire(directory)
        except (filelock.Timeout, FileNotFoundError, FileExistsError):
            # Another process took it for one that was left behind, before it was locked. Where that
            # process replaces or removes the lock meanwhile, filelock finds a file or none.
            continue
        except OSError:
            return directory, None


def _recover(path, is_whole):
    """Cleans up after processes that were killed while they wrote `path`."""
    pattern = re.compile(re.escape(_PREFIX) + "[^-]+-" + re.escape(short_name(path.name)))
    left = []
    with contextlib.suppress(PermissionError):  # a directory that can be written and not read
        left = [each for each in path.parent.iterdir() if pattern.fullmatch(each.name)]
    for directory in left:
        # Of a living process, of another user, gone meanwhile, or without locks: leave it.
        with contextlib.suppress(filelock.Timeout, OSError):
            lock = _acquire(directory)
            try:
                _clean_up(directory, path, is_whole)
            finally:
                lock.release()


def _acquire(directory):
    """The lock of a working directory.

    Raises:
        Timeout: another process has it.
        FileNotFoundError, FileExistsError: another process has removed it.
        OSError: the file system has no locks.
    """
    lock = filelock.FileLock(directory / _LOCK, timeout=0, thread_local=False)
    lock.acquire()
    if not _is_at_its_path(lock, directory / _LOCK):
        lock.release()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
    return lock


def _is_at_its_path(lock, path):
    """Whether the file that was locked is still there: another may have been made in its place."""
    # Private in filelock since 3.11, which has no public access to the descriptor. Without it only
    # the removal of the lock is noticed, and not a new lock of a process that was faster.
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
    """Removes a file or a directory as far as that is possible, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """Waits until a file, or all of a directory, is on the disk.

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
    """Waits until the names in a directory are on the disk, where the system can do that."""
    if os.name == "nt":  # Windows opens no directories.
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a directory that can be written and not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not offered by the file system
            raise
    finally:
        os.close(descriptor)
