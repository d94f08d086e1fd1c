import contextlib
import os
from pathlib import Path


@contextlib.contextmanager
def atomic_file(path):
    """Gives a temporary name beside `path`, with its suffix, that becomes `path` on success.

    A kill or a full disk leaves the file of that name as it was. The directory is made if needed.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with atomic_file(path) as temporary:
    ...     _ = temporary.write_text("42")
    >>> path.read_text()
    '42'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".writing-{path.name}")
    try:
        yield temporary
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
