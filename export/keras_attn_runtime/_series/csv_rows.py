"""Reads rows from a CSV file. Rows and cells in unexpected places are errors."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import BinaryIO, TextIO, TypeAlias

Source: TypeAlias = str | PathLike[str] | BinaryIO | TextIO
"""A path, or an open file."""

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
"""Dict from delimiter names to characters."""

BYTE_ORDER_MARK = "\ufeff"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Row:
    """A row in a CSV file.

    Attributes:
        line: int, number of its first line in the file, counted from 1.
        cells: list of strings, the cells in the required columns.
    """

    line: int
    cells: list[str]


def read_rows(source: Source, columns: Sequence[str], delimiter: str = ",") -> list[Row]:
    """Reads some columns from a CSV file whose first line contains the column names.

    The file is UTF-8, with or without a byte order mark, or UTF-16 with a byte order mark (in
    Excel: "Unicode text"). Lines end with "\\n", "\\r\\n" or "\\r". Empty lines at the end of the
    file are ignored. In a file with one column, an empty line between rows is an empty cell.

    Args:
        source: path or open file.
        columns: list of strings, required column names, without repetitions.
        delimiter: string, the character between cells. Default: ",".

    Returns:
        List of `Row`s, with cells in the order of `columns`.

    Raises:
        ValueError: if the file is not text, a column is missing or duplicated, a row contains more
            or fewer cells than the first line, or there are no rows.
    """
    rows = _records(_text(source), delimiter)
    no_names: list[str] = []
    _, names = next(rows, (1, no_names))
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(
            f"Expected the columns {missing} in the file. Received: {_shown(names)}. The first "
            f"line has the names of the columns, separated by {delimiter!r}."
            + _other_delimiter(names, missing, delimiter)
        )
    repeated = [name for name in columns if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"Expected one column {repeated[0]!r} in the file. Received: "
            f"{names.count(repeated[0])} columns with this name: {_shown(names)}. Rename the "
            "others."
        )
    positions = [names.index(name) for name in columns]
    results: list[Row] = []
    empty: list[int] = []  # lines of rows that are empty so far
    for line, cells in rows:
        # csv returns [] for an empty line, and [""] for a line with the quoted cell "".
        if not cells or (len(names) > 1 and len(cells) == 1 and not cells[0].strip()):
            empty.append(line)
            continue
        if empty and len(names) > 1:
            raise ValueError(
                f"Expected {len(names)} cells in each line. Received: an empty line {empty[0]} "
                "between rows. Remove the line, or write the cells of a missing row."
            )
        results += [Row(empty_line, [""]) for empty_line in empty]
        empty = []
        if len(cells) != len(names):
            raise ValueError(
                f"Expected {len(names)} cells in each line, as in the first line. Received: "
                f"{len(cells)} cells in line {line}: {_shown(cells)}. Write a cell that contains "
                f"{delimiter!r}, such as a number with a decimal comma, in quotation marks."
            )
        results.append(Row(line, [cells[position] for position in positions]))
    if empty and len(names) == 1 and results:
        raise ValueError(
            "Expected no empty lines at the end of a file with one column, because they could be "
            f"missing values. Received: an empty line {empty[0]}. Remove it, or write NA for a "
            "missing value."
        )
    if not results:
        raise ValueError("Expected rows after the names of the columns. Received: 0 rows.")
    return results


def shown_cell(cell: str) -> str:
    """Returns a cell for an error message, without the end of a long cell."""
    return repr(cell) if len(cell) <= 60 else f"{cell[:60]!r}... ({len(cell)} characters)"


def _shown(cells: Sequence[str]) -> str:
    shown = ", ".join(map(shown_cell, cells[:20]))
    return f"[{shown}]" if len(cells) <= 20 else f"[{shown}, ...] ({len(cells)} cells)"


def _other_delimiter(names: Sequence[str], missing: Sequence[str], delimiter: str) -> str:
    """Returns advice if the first line contains the missing columns with a different delimiter."""
    for name, other in DELIMITERS.items():
        cells = [cell.strip('"') for joined in names for cell in joined.split(other)]
        if other != delimiter and set(missing) <= set(cells):
            return f" Use --delimiter {name} (in Python: delimiter={other!r})."
    return ""


def _text(source: Source) -> str:
    """Returns a file's content without a byte order mark."""
    try:
        if isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                content = file.read()
        else:
            content = source.read()
        if isinstance(content, bytes):
            content = content.decode("utf-16" if content.startswith(UTF16_MARKS) else "utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"Expected a file in {error.encoding.upper()}. Received: byte "
            f"0x{error.object[error.start]:02x} in line {line}. Save the file as UTF-8 (in Excel: "
            "'CSV UTF-8')."
        ) from error
    text = content.removeprefix(BYTE_ORDER_MARK)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(
            f"Expected text. Received: a NUL character in line {line}. Save the file as UTF-8."
        )
    return text


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each record's first line number and cells."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                f"Expected cells of at most {csv.field_size_limit():,} characters, and quotation "
                f"marks around whole cells. Received: {error}, in the row that begins in line "
                f"{line}. Correct the quotation marks."
            ) from error
        yield line, cells
