"""Series tables, read from CSV files."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_attn_runtime._array_types import Floats
from keras_attn_runtime._series.calendar_columns import compute_calendar
from keras_attn_runtime._series.csv_rows import Source, read_rows, shown_cell
from keras_attn_runtime._series.steps import next_times, steps_between, time_step
from keras_attn_runtime._series.times import Time, parse_times

MISSING = ("", "nan", "na", "null")
"""Cells without a number, in lower case."""

LARGEST = float(np.finfo(np.float32).max)

PREVIOUS = "previous"
"""Value for `--fill NAME=previous`: an empty cell repeats the value above it."""

DECIMALS = {"point": ".", "comma": ","}
"""Dict from decimal separator names to characters."""

_NUMBERS = {
    mark: re.compile(rf"[+-]?(\d+([{mark}]\d*)?|[{mark}]\d+)([eE][+-]?\d+)?", re.ASCII)
    for mark in DECIMALS.values()
}
"""Dict from decimal separators to number patterns."""

MOST_INSERTED = 1_000_000
"""Maximum number of inserted rows, because a wrong year could insert billions."""


@dataclass(frozen=True)
class SeriesTable:
    """Rows of one series.

    Attributes:
        name: string, the series' name, or "" if the file contains a single one.
        columns: list of strings, column names.
        values: float32 array `(rows, columns)`, with NaN for empty cells.
        times: list, the rows' times, or `None` without a time column.
        lines: list of ints, each row's line number, or 0 for an inserted row.
    """

    name: str
    columns: Sequence[str]
    values: Floats
    times: Sequence[Time] | None
    lines: Sequence[int]

    @property
    def where(self) -> str:
        """string, the series' name for error messages."""
        return f" of the series {self.name!r}" if self.name else ""

    def place(self, row: int) -> str:
        """Returns where a row is, for error messages."""
        if self.lines[row]:
            return f"line {self.lines[row]}{self.where}"
        time = row if self.times is None else self.times[row]
        return f"the inserted row {time}{self.where}"

    def column(self, name: str) -> Floats:
        """Returns a column's values, with shape `(rows,)`."""
        return self.values[:, self.columns.index(name)]

    def with_all_times(self, insert_missing: bool = False) -> "SeriesTable":
        """Checks that no time is missing, or inserts NaN rows for missing times.

        The most frequent difference between consecutive times is the series' step.

        Args:
            insert_missing: bool, whether rows are inserted. Default: `False`, an error.

        Returns:
            `SeriesTable` whose times have equal steps.

        Raises:
            ValueError: if times do not increase, share no step, or are missing and
                `insert_missing=False`.
        """
        if self.times is None or len(self.times) < 2:
            return self
        numbered = list(zip(self.lines, self.times, strict=True))
        step = time_step(numbered, self.where)
        gaps: list[tuple[int, int]] = []  # number of the row after the gap, missing times
        for row in range(1, len(self.times)):
            steps = steps_between(self.times[row - 1], self.times[row], step)
            assert steps is not None  # checked by time_step
            if steps > 1:
                gaps.append((row, steps - 1))
        if not gaps:
            return self
        total = sum(count for _, count in gaps)
        if not insert_missing or total > MOST_INSERTED:
            first = gaps[0][0]
            before = self.times[first - 1]
            advice = (
                "Use --insert-missing-rows to insert them with empty cells: missing targets are "
                "masked."
                if total <= MOST_INSERTED
                else f"At most {MOST_INSERTED:,} rows can be inserted; correct the times."
            )
            raise ValueError(
                f"Expected the time {next_times(before, step, 1)[0]} after {before}. Received: "
                f"{self.times[first]} in {self.place(first)}, the first of {len(gaps)} gaps with "
                f"{total} missing rows. {advice}"
            )
        starts = {row: count for row, count in gaps}
        times: list[Time] = []
        lines: list[int] = []
        kept: list[int] = []
        for row, time in enumerate(self.times):
            count = starts.get(row, 0)
            if count:
                times += next_times(self.times[row - 1], step, count)
                lines += [0] * count
            kept.append(len(times))
            times.append(time)
            lines.append(self.lines[row])
        values = np.full((len(times), len(self.columns)), np.nan, np.float32)
        values[kept] = self.values
        return replace(self, values=values, times=times, lines=lines)

    def later_times(self, number: int) -> list[Time]:
        """Returns the times that follow the last one.

        Args:
            number: int, number of times.

        Raises:
            ValueError: if the table contains no times, or they share no step.
        """
        times = list(self.times or [])
        step = time_step(list(zip(self.lines, times, strict=True)), self.where)
        return next_times(times[-1], step, number)

    def with_num_rows(self, number: int) -> "SeriesTable":
        """Returns a table with a given number of rows.

        It contains this table's first rows. If this table is shorter, the times continue in the
        same steps, and the other cells in the new rows are empty.

        Args:
            number: int, number of rows in the result.
        """
        added = number - len(self.values)
        if added <= 0:
            times = None if self.times is None else self.times[:number]
            return replace(
                self, values=self.values[:number], times=times, lines=self.lines[:number]
            )
        times = None if self.times is None else [*self.times, *self.later_times(added)]
        empty = np.full((added, len(self.columns)), np.nan, np.float32)
        values, lines = np.concatenate([self.values, empty]), [*self.lines, *[0] * added]
        return replace(self, values=values, times=times, lines=lines)

    def with_calendar(self, names: Sequence[str]) -> "SeriesTable":
        """Returns a table with calendar columns after its columns, see `compute_calendar`.

        Args:
            names: list of strings, names of calendar columns.

        Raises:
            ValueError: if the table contains no times, the times are integers, a name is unknown,
                or the table contains a column with this name.
        """
        if not names:
            return self
        if self.times is None:
            raise ValueError(
                f"Expected a time column, from which the columns {', '.join(names)} are computed. "
                "Received: no time column. Use --time-column (in Python: time_column)."
            )
        both = [name for name in names if name in self.columns]
        if both:
            raise ValueError(
                f"Expected columns with other names than {', '.join(both)}, which is computed from "
                f"the times. Received: columns {list(self.columns)}. Rename the column."
            )
        values = np.concatenate([self.values, compute_calendar(names, self.times)], axis=1)
        return replace(self, columns=[*self.columns, *names], values=values)

    def with_filled_cells(
        self, fills: Mapping[str, float | str], num_future: int = 0
    ) -> "SeriesTable":
        """Replaces empty cells in some columns.

        Args:
            fills: dict from column names to a number, or to "previous", which repeats the value
                above the cell. Columns missing in the table are ignored.
            num_future: int, number of future rows at the end. In these rows, "previous" does not
                fill cells: a covariate's future value must be known, and the last past value is
                only a guess. Default: 0.

        Returns:
            `SeriesTable`.
        """
        values = self.values.copy()
        past = values[: len(values) - num_future]
        for name, fill in fills.items():
            if name not in self.columns:
                continue
            column = list(self.columns).index(name)
            if isinstance(fill, str):
                is_number = ~np.isnan(past[:, column])
                latest = np.maximum.accumulate(np.where(is_number, np.arange(len(past)), -1))
                has_value = latest >= 0
                past[has_value, column] = past[latest[has_value], column]
            else:
                values[np.isnan(values[:, column]), column] = fill
        return replace(self, values=values)

    def require_numbers(self, names: Sequence[str], first: int, num_future: int = 0) -> None:
        """Raises a `ValueError` if a cell in some columns is empty.

        Args:
            names: list of strings, covariate columns.
            first: int, number of the first row to check.
            num_future: int, number of future rows at the end. Default: 0.
        """
        for name in names:
            rows = np.flatnonzero(np.isnan(self.column(name)[first:])) + first
            if not len(rows):
                continue
            row = int(rows[0])
            is_future = row >= len(self.values) - num_future
            time = f" ({self.times[row]})" if self.times is not None and self.lines[row] else ""
            advice = (
                f"The future of a covariate must be known: fill in the cell, or use --fill "
                f"{name}=0 if an empty cell means 0."
                if is_future
                else f"Fill in the cell, or use --fill {name}=0 or --fill {name}={PREVIOUS}."
            )
            raise ValueError(
                f"Expected a number in column {name!r}, {self.place(row)}{time}. Received: an "
                f"empty cell{' in the future' if is_future else ''}. {advice}"
            )


def read_series_tables(
    file: Source,
    columns: Sequence[str],
    time_column: str | None = None,
    series_column: str | None = None,
    *,
    delimiter: str = ",",
    decimal: str = ".",
) -> list[SeriesTable]:
    """Reads columns of numbers from a CSV file whose first line contains the column names.

    The file is UTF-8, with or without a byte order mark, or UTF-16 with a byte order mark. Each row
    contains as many cells as the first line. A cell is a number, such as -1.5e3, or a missing
    value: empty, NA, NaN or null.

    The times are integers, dates (2024-12-31 or 20241231), months (2024-12 or 202412), quarters
    (2024Q4), or dates with a time of day (2024-12-31 23:00, 2024-12-31T23:00:00+01:00). All times
    in a file use one form.

    Args:
        file: path, or open binary or text file. Open a text file with `newline=""`.
        columns: list of strings, names of the columns to read.
        time_column: string, time column. Default: `None`.
        series_column: string, column that names the series of each row. Default: `None`, all rows
            are one series.
        delimiter: string, the character between cells, such as ";" or "\\t". Default: ",".
        decimal: "." or ",", the decimal separator. Default: ".".

    Returns:
        List of `SeriesTable`s, one for each series, in file order.

    Raises:
        ValueError: if a column is missing or duplicated, a row contains more or fewer cells than
            the first line, there are no rows, a cell is not a number, a time or a series name, or
            the file is not text.

    Example:

        (table,) = read_series_tables("sales.csv", ["sales", "price"], "date")
        table = table.with_all_times(insert_missing=True)
        table = table.with_filled_cells({"price": "previous"})
    """
    number = _NUMBERS.get(decimal)
    if number is None or len(delimiter) != 1:
        raise ValueError(
            "Expected delimiter to be one character, and decimal to be '.' or ','. Received: "
            f"delimiter={delimiter!r}, decimal={decimal!r}."
        )
    columns = list(dict.fromkeys(columns))
    keys = [name for name in (time_column, series_column) if name is not None]
    needed = list(dict.fromkeys([*columns, *keys]))
    rows = read_rows(file, needed, delimiter)
    times: list[Time] | None = None
    if time_column is not None:
        place = needed.index(time_column)
        times = parse_times(
            [row.cells[place] for row in rows], [row.line for row in rows], time_column
        )
    series: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        name = "" if series_column is None else row.cells[needed.index(series_column)]
        if series_column is not None and not name.strip():
            raise ValueError(
                f"Expected the name of a series in column {series_column!r}, line {row.line}. "
                f"Received: {name!r}. Fill in the cell."
            )
        series.setdefault(name, []).append(index)
    values = np.array(
        [
            [
                _number(cell, name, row.line, decimal)
                for name, cell in zip(columns, row.cells[: len(columns)], strict=True)
            ]
            for row in rows
        ],
        np.float32,
    ).reshape(len(rows), len(columns))
    return [
        SeriesTable(
            name,
            columns,
            values[members],
            None if times is None else [times[row] for row in members],
            [rows[row].line for row in members],
        )
        for name, members in series.items()
    ]


def _number(cell: str, name: str, line: int, decimal: str) -> float:
    """Returns a cell's number, or NaN for a missing value."""
    text = cell.strip()
    if text.lower() in MISSING:
        return math.nan
    number = float(text.replace(",", ".")) if _NUMBERS[decimal].fullmatch(text) else math.inf
    if abs(number) <= LARGEST:
        return number
    advice = "Leave the cell of a missing value empty."
    for other, mark in DECIMALS.items():
        if mark != decimal and _NUMBERS[mark].fullmatch(text):
            advice = f"Use --decimal {other} if {mark!r} is the decimal separator."
    raise ValueError(
        f"Expected a finite float32 number in column {name!r}, line {line}. Received: "
        f"{shown_cell(cell)}. {advice}"
    )
