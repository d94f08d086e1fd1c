"""Reads and writes UTF-8 text files line by line."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn_checks.message import Argument, Message


def read_lines(path: str | PathLike) -> Iterator[str]:
    r"""Reads a UTF-8 text file line by line.

    A line ends only at `\n` or `\r\n`. A single `\r`, a form feed or U+2028 does not end a line,
    because this would misalign the lines of two parallel files. A byte order mark at the beginning
    is removed. Only one line is in memory at a time.

    Args:
        path: Path of a text file. A file whose name ends with `.gz` is decompressed.

    Returns:
        Iterator of strings, the lines without line breaks.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If a line is not valid UTF-8, or the gzip stream is damaged or incomplete. The
            message names the file and the line, counted from 1.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.files import read_lines
    >>> path = Path(tempfile.mkdtemp()) / "train.en"
    >>> _ = path.write_text("two dogs\na\u2028tree\n", encoding="utf-8")
    >>> list(read_lines(path))
    ['two dogs', 'a\u2028tree']
    """
    path = Path(path)
    open_file = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with open_file(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                yield text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError as error:
        raise ValueError(
            Message(
                "Expected text in UTF-8. Received: ",
                Argument("path", str(path)),
                f", line {number}, byte {error.start} of the line is "
                f"0x{error.object[error.start]:02x}. Convert the file, for example with `iconv -f "
                "LATIN1 -t UTF-8`.",
            )
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            Message(
                "Expected a complete gzip file. Received: ",
                Argument("path", str(path)),
                f", unreadable after line {number} ({error}). Copy or download the file again.",
            )
        ) from error


def write_lines(path: str | PathLike, lines: Iterable[str]) -> None:
    r"""Writes a UTF-8 text file, which replaces an earlier file when it is complete.

    Args:
        path: Path of the file. Its directory must exist.
        lines: Strings without line breaks.

    Raises:
        OSError: If the file cannot be written.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from keras_attn.files import write_lines
    >>> path = Path(tempfile.mkdtemp()) / "train.en"
    >>> write_lines(path, ["two dogs", "a tree"])
    >>> path.read_text(encoding="utf-8")
    'two dogs\na tree\n'
    """
    with (
        atomic_replace(path) as partial,
        open(partial, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)
