"""Writes files atomically: other processes read either the old or the new content."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from keras_attn_runtime._files.regular_file import KINDS
from keras_attn_runtime._files.working_directory import working_directory

FULL = ("EDQUOT", "EFBIG", "EIO", "ENOSPC")
"""Errors from `write`, `flush` and `fsync`, which know only a file descriptor."""


@contextmanager
def atomic_files(*paths: str | PathLike[str]) -> Generator[list[BinaryIO], None, None]:
    """Context manager that opens temporary files, which replace `paths` on success.

    All files are written and flushed to disk (fsync) before the first is renamed to its path. So if
    a disk is full, an error is raised in the block, or the process is killed, the old files are
    unchanged. A new file gets the old file's mode.

    Args:
        *paths: final paths. The target of a symbolic link is replaced, not the link.

    Yields:
        List of binary files, in the order of the paths.

    Raises:
        OSError: if a path is a directory or cannot be written. The error for a full disk names the
            paths.
    """
    targets = [Path(os.path.realpath(path)) for path in paths]
    with ExitStack() as stack:
        stack.enter_context(_named_errors(*paths))
        drafts: list[Path] = []
        files: list[BinaryIO] = []
        for target in targets:
            _require_replaceable(target)
            directory = stack.enter_context(working_directory(target.parent, target.name))
            drafts.append(directory / "content")
            files.append(stack.enter_context(open(drafts[-1], "xb")))
        yield files
        for file in files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for draft, target in zip(drafts, targets, strict=True):
            with suppress(OSError):  # there is no old file, or its mode cannot be copied
                os.chmod(draft, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(draft, target)
            _flush_directory(target.parent)


def require_different_files(
    output: str | PathLike[str], *inputs: str | PathLike[str] | int
) -> None:
    """Raises a `ValueError` if a command's output is one of its input files.

    Links and different spellings of a path are the same file.

    Args:
        output: path of the output file.
        *inputs: paths or descriptors of the input files. Missing files are ignored.
    """
    for source in inputs:
        with suppress(OSError):  # one of the files does not exist
            if os.path.samestat(os.stat(output), os.stat(source)):
                name = "standard input" if isinstance(source, int) else repr(str(source))
                raise ValueError(
                    f"Expected an output that is not read. Received: {str(output)!r}, the same "
                    f"file as {name}. Write to another path."
                )


def is_stream(path: str | PathLike[str]) -> bool:
    """Returns whether a path is a device, a pipe or a socket, which is written but not replaced."""
    if os.path.abspath(path).startswith(("/dev/", "/proc/")):  # such as /dev/stdout
        return True
    try:
        return stat.S_IFMT(os.stat(path).st_mode) in KINDS
    except OSError:
        return False


@contextmanager
def _named_errors(*paths: str | PathLike[str]) -> Generator[None, None, None]:
    """Adds the paths to the error for a full disk, which contains no file name."""
    try:
        yield
    except OSError as error:
        if errno.errorcode.get(error.errno or 0) in FULL and error.filename is None:
            error.filename = ", ".join(os.fspath(path) for path in paths)
        raise


def _require_replaceable(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(
            f"Expected the path of a file. Received: {str(path)!r}, a directory. Add a file name."
        )
    if is_stream(path):
        raise FileExistsError(
            f"Expected the path of a regular file. Received: {str(path)!r}, a device, pipe or "
            "socket. Choose another path."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"Expected a path in an existing directory. Received: {str(path)!r}. Create "
            f"{str(path.parent)!r} first."
        )


def _flush_directory(path: Path) -> None:
    """Flushes directory entries to disk if the system supports it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
