import contextlib
import os
import shutil
from pathlib import Path

EXPORTS = {
    "model.onnx": {"model.weights"},
    "start.onnx": {"step.onnx", "finish.onnx"},
    "saved_model.pb": {"fingerprint.pb", "variables", "assets"},
}
"""What each export has in its directory, and what may be beside it: the rest is the user's."""


@contextlib.contextmanager
def replace_when_done(path, is_file=None, first_bytes=b""):
    """Gives a temporary name beside `path`, which becomes `path` only if the block succeeds.

    The block writes a file or a directory under that name. An exception (a full disk, a failed
    check) removes it. A killed process leaves it behind: its name begins with `.partial` and ends
    with the suffix of `path`, which Keras looks at. In no case is there half a file under the final
    name.

    Args:
        path: the final name. An existing file there is replaced; so is the directory of an earlier
            export, but no other. A link stays a link: what it points to is replaced.
        is_file: bool, whether the block writes a file, so that a directory is refused before the
            block runs, or a directory, so that a file is. Default `None`: it is not known, and a
            directory in the place of a file is refused after it.
        first_bytes: bytes, what an existing file begins with if it may be replaced, by a directory
            too; an empty one always may. Default: anything, if the block may write a file.

    Raises:
        FileNotFoundError: the directory that shall hold `path` does not exist.
        FileExistsError: `path` is a directory with other content than an earlier export, any
            directory in the place of a file, a file in the place of a directory, or a file that
            begins otherwise.

    Example:

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp())
    >>> with replace_when_done(directory / "answer.txt") as partial:
    ...     _ = partial.write_text("42")
    >>> (directory / "answer.txt").read_text()
    '42'
    """
    path = Path(path)
    if path.is_symlink():  # the link stays, and what it points to is replaced
        path = path.resolve()
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    is_export = any(main in names and names <= {main, *more} for main, more in EXPORTS.items())
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            "Expected a path in an existing directory. "
            f"Received: path={str(path)!r}. Create {str(path.parent)!r} first."
        )
    if names and not is_export:
        raise FileExistsError(
            "Expected a new path, or an earlier export to replace. "
            f"Received: path={str(path)!r}, a directory with other content. Move that away, or "
            "choose another path."
        )
    if is_file:
        _refuse_directory(path)
    if path.is_file() and (first_bytes or is_file is False):
        _refuse_other_file(path, first_bytes)
    partial = path.with_name(f".partial-{os.getpid()}-{path.name}")
    _remove(partial)
    try:
        yield partial
        _flush_to_disk(partial)
        _replace(partial, path)
    except BaseException:
        _remove(partial)
        raise


def _flush_to_disk(path):
    # Some file systems report a full disk only here.
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        with open(file, "rb+") as stream:
            os.fsync(stream.fileno())


def _replace(partial, path):
    if partial.is_file():
        _refuse_directory(path)
    if partial.is_file() or not path.exists():
        os.replace(partial, path)
        return
    # A directory cannot take the place of anything in one step.
    previous = path.with_name(f".previous-{os.getpid()}-{path.name}")
    os.replace(path, previous)
    try:
        os.replace(partial, path)
    except BaseException:
        os.replace(previous, path)
        raise
    _remove(previous)


def _refuse_directory(path):
    if path.is_dir():
        raise FileExistsError(
            f"Expected the name of a file. Received: path={str(path)!r}, a directory."
        )


def _refuse_other_file(path, first_bytes):
    with open(path, "rb") as stream:
        begin = stream.read(max(1, len(first_bytes)))
    if begin and (not first_bytes or begin != first_bytes):
        raise FileExistsError(
            f"Expected a new path, or an earlier export to replace. Received: path={str(path)!r}, "
            "a file with other content. Move that away, or choose another path."
        )


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
