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

EXPORTS = {
    "model.onnx": {"model.weights"},
    "start.onnx": {"step.onnx", "finish.onnx"},
    "saved_model.pb": {"fingerprint.pb", "variables", "assets"},
}
"""The main file of each kind of exported directory, and the names of its other files. Directories
with any other names are never replaced."""

_ATTEMPTS = 100
"""Attempts to replace a path that other processes replace at the same time."""


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def atomic_replace(
    path: str | PathLike[str],
    is_file: bool | None = None,
    first_bytes: bytes = b"",
    like: str | PathLike[str] | None = None,
) -> Iterator[Path]:
    """Yields a temporary path whose content replaces `path` when the block succeeds.

    The block writes a file or a directory to the temporary path, which has the same name and is in
    a new directory next to `path`. Everything is written to disk (fsync) before the new content
    appears under the final name. An exception (a full disk, a failed check) removes it. If the
    process is killed, the next call for the same `path` removes the rest. Any number of processes
    may write the same path at the same time; the last one to finish wins.

    A file is replaced in one step: a reader finds the old or the new one. This also holds for a
    directory on Linux and macOS, if the file system can exchange two directories (ext4, XFS, Btrfs,
    tmpfs, overlayfs, APFS). On others (NFS, Windows, and directories of a container image), the old
    directory is moved away before the new one is moved to its place. In between, a reader may find
    nothing. If the process is killed in between, the next call restores the old directory.

    The new file or directory gets the mode of the one that it replaces, and its owner and group if
    permitted. In a directory, this also applies to each file with the same name.

    A process that opens several files of a directory by path may read some of the old and some of
    the new directory. `keras_attn_runtime` detects this and reads again.

    Args:
        path: Final path. An existing file is replaced, and so is a directory that is empty or
            contains an earlier export. Other directories, named pipes, sockets and devices are
            refused. If the path is a link, its target is replaced.
        is_file: Bool. If `True`, the block writes a file, and an existing directory is refused
            before the block runs. If `False`, it writes a directory, and an existing file is
            refused. Defaults to `None`, unknown: a directory is refused after the block if it wrote
            a file.
        first_bytes: Bytes with which an existing file must begin to be replaced. Empty files are
            always replaced. Defaults to `b""`: any file, if the block may write a file.
        like: Path of a file whose mode and owner a new file gets, because it was moved away from
            `path`. Defaults to `None`.

    Yields:
        `pathlib.Path`, the temporary path.

    Raises:
        FileNotFoundError: If the directory of `path` does not exist.
        FileExistsError: If `path` is a directory with content other than an earlier export, a
            directory if the block writes a file, a file if it writes a directory, a file that
            begins with other bytes, or neither a file nor a directory.

    Example:

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with atomic_replace(directory / "answer.txt") as partial:
    ...     _ = partial.write_text("42")
    >>> (directory / "answer.txt").read_text()
    '42'
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            "Expected a path in an existing directory. "
            f"Received: path={str(path)!r}. Create {str(path.parent)!r} first."
        )
    with working_directory(path, _is_whole) as directory:
        _refuse_other_content(path, is_file, first_bytes)
        partial = directory / path.name
        yield partial
        flush_to_disk(partial)
        # Checked again, because other processes may have written while the block ran.
        _refuse_other_content(path, partial.is_file(), first_bytes)
        _keep_modes(path if like is None or path.exists() else Path(like), partial)
        _put_in_place(partial, path)
        flush_directory(path.parent)
        remove(directory / PREVIOUS)


def _keep_modes(old, new):
    """Gives files and directories the mode and the owner of those that they replace."""
    with contextlib.suppress(OSError):  # owned by another user, removed, or without modes
        before, now = old.stat(), new.stat()
        mode = stat.S_IMODE(before.st_mode)
        if old.is_file() and new.is_dir():  # read permission includes entering the directory
            mode |= (mode & 0o444) >> 2
        if (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            with contextlib.suppress(OSError):
                os.chown(new, before.st_uid, before.st_gid)
        if mode != stat.S_IMODE(new.stat().st_mode):
            os.chmod(new, mode)
    if new.is_dir() and old.is_dir():
        for each in new.iterdir():
            if (old / each.name).is_dir() == each.is_dir() and (old / each.name).exists():
                _keep_modes(old / each.name, each)


def _put_in_place(new, path):
    """Moves a file or directory to `path`. Previous content ends up in the directory of `new`."""
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
            # Another process has just created or removed the path.
            changed = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
            if error.errno not in changed or not os.path.lexists(new):
                raise
    raise FileExistsError(
        f"Expected to replace {str(path)!r}. Received: {_ATTEMPTS} replacements by other processes "
        "at the same time. Write to different paths, or one after the other."
    )


def _replace_in_two_steps(new, path):
    """Moves the old directory away and the new one to its place, without an atomic exchange.

    If the process ends between the two steps, `working_directory` moves the old one back.
    """
    previous = new.with_name(PREVIOUS)
    if os.path.lexists(previous):  # moved away in an earlier attempt
        remove(previous)
    try:
        os.rename(path, previous)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_by_copying(path, previous)
    os.rename(new, path)


def _move_by_copying(path, target):
    """Moves a directory of a container image, which overlayfs cannot rename."""
    copy = target.with_name("copy")
    remove(copy)
    shutil.copytree(path, copy, symlinks=True)
    flush_to_disk(copy)
    os.rename(copy, target)
    for main in EXPORTS:  # first, so that the rest is not mistaken for an export
        (path / main).unlink(missing_ok=True)
    shutil.rmtree(path)


def _is_whole(path):
    """Returns whether a path exists and is not a remainder of an interrupted `_move_by_copying`."""
    if not path.is_dir() or path.is_symlink():
        return os.path.lexists(path)
    names = _names_in(path)
    parts = set().union(*EXPORTS.values()) - EXPORTS.keys()
    return not names <= parts


def _names_in(path):
    """Returns the names in a directory; an empty set if it does not exist (any more)."""
    try:
        return set(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):  # moved away by another process
        return set()


def _refuse_other_content(path, is_file, first_bytes):
    """Raises a `FileExistsError` if `path` has content that must not be replaced."""
    kind = None
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    if kind is not None:
        raise FileExistsError(
            f"Expected the name of a file or a directory. Received: path={str(path)!r}, {kind}. "
            "Choose another path."
        )
    names = _names_in(path)
    is_export = any(main in names and names <= {main, *more} for main, more in EXPORTS.items())
    if names and not is_export:
        raise FileExistsError(
            "Expected a new path, or an earlier export to replace. "
            f"Received: path={str(path)!r}, a directory with other content. Move it away, or "
            "choose another path."
        )
    if is_file and path.is_dir():
        raise FileExistsError(
            f"Expected the name of a file. Received: path={str(path)!r}, a directory. Remove it, "
            "or choose another path."
        )
    if path.is_file() and (first_bytes or is_file is False):
        _refuse_other_file(path, first_bytes)


def _refuse_other_file(path, first_bytes):
    with open(path, "rb") as stream:
        begin = stream.read(max(1, len(first_bytes)))
    if begin and (not first_bytes or begin != first_bytes):
        raise FileExistsError(
            f"Expected a new path, or an earlier export to replace. Received: path={str(path)!r}, "
            "a file with other content. Move it away, or choose another path."
        )
