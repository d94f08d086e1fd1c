"""Atomic replacement of files and directories."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from keras_attn._files.exchange_paths import exchange_paths
from keras_attn._files.working_directory import (
    PREVIOUS,
    flush_directory,
    flush_to_disk,
    remove,
    working_directory,
)
from keras_attn_checks.output_path import (
    EXPORTS,
    EXTRA,
    names_in,
    refuse_other_content,
    require_parent_directory,
)

_ATTEMPTS = 100
"""Maximum number of attempts if other processes replace the same path at the same time."""

_FULL = ("EDQUOT", "EFBIG", "EIO", "ENOSPC")
"""Errors from `write`, `flush` and `fsync`, which know only a file descriptor."""


@contextlib.contextmanager
def atomic_replace(
    path: str | PathLike[str],
    is_file: bool | None = None,
    first_bytes: bytes = b"",
    like: str | PathLike[str] | None = None,
) -> Iterator[Path]:
    """Context manager that yields a temporary path, whose content replaces `path` on success.

    The `with` block must write a file or a directory to the temporary path. The temporary path has
    the same name as `path`, and is in a new directory in the parent directory of `path`. The new
    content is flushed to disk (fsync) before it replaces `path`. If the block raises an exception,
    the new content is removed. If the process is killed, the next call for the same `path` removes
    the temporary directory. Several processes may write the same path at the same time; the last
    one to finish wins.

    A file is replaced in one step, so a reader finds either the old or the new file. A directory is
    also replaced in one step on Linux and macOS, if the file system can exchange two directories
    (ext4, XFS, Btrfs, tmpfs, overlayfs, APFS). On other file systems (NFS, Windows, directories in
    a container image), the function first moves the old directory away, and then moves the new
    directory to `path`. Between the two steps, `path` does not exist. If the process is killed at
    this point, the next call restores the old directory.

    The new file or directory gets the mode, and if permitted the owner and group, of the old one.
    In a directory, each file gets the mode and owner of the old file with the same name.

    If a process opens several files in a directory during a replacement, some files can be old and
    others new. `keras_attn_runtime` detects such a mixture and reads the directory again.

    Args:
        path: Final path. An existing file, an empty directory, and a directory that contains an
            earlier export are replaced. Other directories, named pipes, sockets and devices raise
            an error. If the path is a symbolic link, its target is replaced.
        is_file: Bool, whether the block writes a file. `True` raises an error before the block runs
            if `path` is a directory. `False` raises an error if `path` is a file. Defaults to
            `None`: if `path` is a directory and the block writes a file, an error is raised after
            the block.
        first_bytes: Bytes. An existing file is only replaced if it begins with these bytes or is
            empty. Defaults to `b""`: any file is replaced.
        like: Path of a file. If `path` does not exist, the new file gets this file's mode and
            owner. Defaults to `None`.

    Yields:
        `pathlib.Path`, the temporary path.

    Raises:
        FileNotFoundError: If the directory of `path` does not exist.
        FileExistsError: If `path` must not be replaced: a directory with content other than an
            earlier export, a directory although the block writes a file, a file although
            `is_file=False`, a file that does not begin with `first_bytes`, or neither a file nor a
            directory.
        OSError: If the content cannot be written, for example to a full disk. Its `filename` is
            `path`.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.files import atomic_replace
    >>> directory = Path(tempfile.mkdtemp())
    >>> with atomic_replace(directory / "answer.txt") as partial:
    ...     _ = partial.write_text("42")
    >>> (directory / "answer.txt").read_text()
    '42'
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()
    require_parent_directory(path)
    with _named_errors(path), working_directory(path, _is_whole) as directory:
        refuse_other_content(path, is_file, first_bytes)
        partial = directory / path.name
        yield partial
        flush_to_disk(partial)
        # Check again, because another process may have changed `path` while the block ran.
        refuse_other_content(path, partial.is_file(), first_bytes)
        _keep_modes(path if like is None or path.exists() else Path(like), partial)
        _put_in_place(partial, path)
        flush_directory(path.parent)
        remove(directory / PREVIOUS)


@contextlib.contextmanager
def _named_errors(path):
    """Adds the path to the error for a full disk, which contains no file name."""
    try:
        yield
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) in _FULL and error.filename is None:
            error.filename = str(path)
        raise


def _keep_modes(old, new):
    """Copies mode and owner of old files and directories to the new ones."""
    with contextlib.suppress(OSError):  # no permission, removed, or not supported
        before, now = old.stat(), new.stat()
        mode = stat.S_IMODE(before.st_mode)
        if old.is_file() and new.is_dir():  # add a directory's execute bits
            mode |= (mode & 0o444) >> 2
        if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            with contextlib.suppress(OSError):
                os.chown(new, before.st_uid, before.st_gid)
        if mode != stat.S_IMODE(new.stat().st_mode):
            os.chmod(new, mode)
    if new.is_dir() and old.is_dir():
        for path in new.iterdir():
            if (old / path.name).is_dir() == path.is_dir() and (old / path.name).exists():
                _keep_modes(old / path.name, path)


def _put_in_place(new, path):
    """Moves `new` to `path`. A previous directory is moved to the parent of `new`."""
    if new.is_file() and not path.is_dir():
        os.replace(new, path)
        return
    for _ in range(_ATTEMPTS):
        try:
            if not os.path.lexists(path):
                os.rename(new, path)
                return
            if exchange_paths(new, path):
                return
            _replace_in_two_steps(new, path)
            return
        except OSError as error:
            # Another process has created or removed the path: try again.
            changed = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
            if error.errno not in changed or not os.path.lexists(new):
                raise
    raise FileExistsError(
        f"Expected to replace {str(path)!r}. Received: {_ATTEMPTS} replacements by other processes "
        "at the same time. Write to different paths, or one after the other."
    )


def _replace_in_two_steps(new, path):
    """Moves the old directory away, and then moves the new directory to `path`.

    If the process ends between the two steps, `working_directory` restores the old directory.
    """
    previous = new.with_name(PREVIOUS)
    if os.path.lexists(previous):  # moved in an earlier attempt
        remove(previous)
    try:
        os.rename(path, previous)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_by_copying(path, previous)
    os.rename(new, path)


def _move_by_copying(path, target):
    """Moves a directory in a container image by copying, because overlayfs cannot rename it."""
    copy = target.with_name("copy")
    remove(copy)
    shutil.copytree(path, copy, symlinks=True)
    flush_to_disk(copy)
    os.rename(copy, target)
    # Remove main files first, so that a partly removed directory is not recognized as an export.
    for main in EXPORTS:
        (path / main).unlink(missing_ok=True)
    shutil.rmtree(path)


def _is_whole(path):
    """Returns whether a path exists, and was not partly removed by `_move_by_copying`."""
    if not path.is_dir() or path.is_symlink():
        return os.path.lexists(path)
    names = names_in(path)
    parts = {EXTRA, *set().union(*EXPORTS.values())} - EXPORTS.keys()
    return not names <= parts
