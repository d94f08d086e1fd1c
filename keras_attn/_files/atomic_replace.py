"""Writes a file or a directory that replaces the former one only when it is complete."""

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
"""The main file of each kind of exported directory, and the names of its other files. Anything else
in such a directory belongs to the user."""

_ATTEMPTS = 100
"""Several processes that replace the same path at the same time may come in each other's way."""


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
    """Yields a temporary path, whose content becomes that of `path` if the block succeeds.

    The block writes a file or a directory under the temporary path, which lies in a directory of
    its own next to `path` and has the same name. Everything is on the disk (fsync) before the new
    content appears under the final name. An exception (a full disk, a failed check) removes it. If
    the process is killed, the next call for the same `path` removes what was left. Any number of
    processes may write the same path at the same time; the last one to finish wins.

    A file is replaced in one step: a reader finds the old or the new one. So is a directory on
    Linux and macOS, where the file system can exchange two directories (ext4, XFS, Btrfs, tmpfs,
    overlayfs, APFS). On others (NFS, Windows, and directories of the image of a container) it is
    moved away, and then the new one is moved to its place: a reader may find nothing for a moment,
    and a kill in this moment leaves nothing until the next call, which puts the old one back.

    What replaces a file or a directory gets its mode, and its owner and group if the system permits
    that; in a directory also each file that has the same name.

    A process that opens several files of a directory by their paths may still read some of the
    old and some of the new directory. `keras_attn_runtime` notices that and reads again.

    Args:
        path: the final path. An existing file is replaced, and so is a directory that is empty or
            has an earlier export, but no other, nor a named pipe, a socket or a device. If it is a
            link, what it points to is replaced.
        is_file: bool, whether the block writes a file, so that a directory is refused before the
            block runs, or a directory, so that a file is. Default `None`: unknown; a directory is
            refused after the block if it wrote a file.
        first_bytes: bytes that an existing file must begin with to be replaced, also by a
            directory. An empty file is always replaced. Default: any, if the block may write a
            file.
        like: optional path of a file whose mode and owner a new file gets, because it was moved
            away from `path`. Default: none.

    Raises:
        FileNotFoundError: the directory of `path` does not exist.
        FileExistsError: `path` is a directory with other content than an earlier export, any
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
        # The block may have taken an hour, in which others can write there too.
        _refuse_other_content(path, partial.is_file(), first_bytes)
        _keep_modes(path if like is None or path.exists() else Path(like), partial)
        _put_in_place(partial, path)
        flush_directory(path.parent)
        remove(directory / PREVIOUS)


def _keep_modes(old, new):
    """Gives files and directories the mode and the owner of those that they replace."""
    with contextlib.suppress(OSError):  # of another user, gone meanwhile, or without modes
        before, now = old.stat(), new.stat()
        mode = stat.S_IMODE(before.st_mode)
        if old.is_file() and new.is_dir():  # who may read it may also enter it
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
    """Moves a file or directory to `path`. What was there ends up in the directory of `new`."""
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
            # Another process has just put something there, or taken it away.
            changed = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
            if error.errno not in changed or not os.path.lexists(new):
                raise
    raise FileExistsError(
        f"Expected to replace {str(path)!r}, but other processes replaced it {_ATTEMPTS} times at "
        "the same moment. Write to different paths, or one after the other."
    )


def _replace_in_two_steps(new, path):
    """For file systems without an exchange: moves the old one away, and the new one to its place.

    If the process ends between the two steps, `working_directory` moves the old one back.
    """
    previous = new.with_name(PREVIOUS)
    if os.path.lexists(previous):  # moved away in an earlier attempt, since then replaced
        remove(previous)
    try:
        os.rename(path, previous)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_by_copying(path, previous)
    os.rename(new, path)


def _move_by_copying(path, target):
    """Moves a directory that overlayfs does not rename, because it is part of an image."""
    copy = target.with_name("copy")
    remove(copy)
    shutil.copytree(path, copy, symlinks=True)
    flush_to_disk(copy)
    os.rename(copy, target)
    for main in EXPORTS:  # first, so that nobody takes the rest for an export
        (path / main).unlink(missing_ok=True)
    shutil.rmtree(path)


def _is_whole(path):
    """Whether a path exists and is not what `_move_by_copying` leaves of it if it is killed."""
    if not path.is_dir() or path.is_symlink():
        return os.path.lexists(path)
    names = _names_in(path)
    parts = set().union(*EXPORTS.values()) - EXPORTS.keys()
    return not names <= parts


def _names_in(path):
    """The names in a directory; none if there is no directory, or not anymore."""
    try:
        return set(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):  # another process has just moved it away
        return set()


def _refuse_other_content(path, is_file, first_bytes):
    """Raises FileExistsError if `path` has something that may not be replaced."""
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
