"""Time formats in CSV files: integers, dates, months, quarters, and dates with a time of day.

A column uses one format. Ambiguous formats are rejected.
"""

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from keras_attn_runtime._series.csv_rows import shown_cell

Time: TypeAlias = int | datetime.date


class CompactDate(datetime.date):
    """A date in ISO 8601 basic format, such as 20240131."""

    def __str__(self) -> str:
        return f"{self.year:04}{self.month:02}{self.day:02}"


class Month(datetime.date):
    """A month, such as 2024-01: its first day."""

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"


class CompactMonth(datetime.date):
    """A month, such as 202401: its first day."""

    def __str__(self) -> str:
        return f"{self.year:04}{self.month:02}"


class Quarter(datetime.date):
    """A quarter, such as 2024Q1, as pandas writes it: its first day in a calendar year."""

    def __str__(self) -> str:
        return f"{self.year:04}Q{(self.month + 2) // 3}"


@dataclass(frozen=True)
class TimeForm:
    """A time format.

    Attributes:
        name: string, the name for error messages.
        pattern: compiled regular expression that matches a whole cell.
        parse: function that converts a cell to a time, or raises a `ValueError`.
    """

    name: str
    pattern: re.Pattern[str]
    parse: Callable[[str], Time]


def _compact_date(cell: str) -> CompactDate:
    return CompactDate(int(cell[:4]), int(cell[4:6]), int(cell[6:]))


def _month(cell: str) -> Month:
    return Month(int(cell[:4]), int(cell[5:]), 1)


def _compact_month(cell: str) -> CompactMonth:
    return CompactMonth(int(cell[:4]), int(cell[4:]), 1)


def _quarter(cell: str) -> Quarter:
    return Quarter(int(cell[:4]), 3 * int(cell[5:]) - 2, 1)


def _compact_datetime(pattern: str) -> Callable[[str], Time]:
    return lambda cell: datetime.datetime.strptime(cell, pattern)


def _form(name: str, pattern: str, parse: Callable[[str], Time]) -> TimeForm:
    return TimeForm(name, re.compile(pattern, re.ASCII), parse)


_DATE, _CLOCK, _ZONE = (
    r"\d{4}-\d\d-\d\d",
    r"\d\d:\d\d(:\d\d([.,]\d{1,6}0*)?)?",
    r"(Z|[+-]\d\d:?\d\d)",
)
_DATETIME = rf"({_DATE}[T ]{_CLOCK}|\d{{8}}T\d{{4}}(\d\d)?)"

INTEGER = _form("an integer", r"-?\d{1,18}", int)
FORMS = (
    INTEGER,
    _form("a date such as 2024-12-31", _DATE, datetime.date.fromisoformat),
    _form("a week day such as 2024-W05-3", r"\d{4}-W\d\d-\d", datetime.date.fromisoformat),
    _form("a month such as 2024-12", r"\d{4}-\d\d", _month),
    _form("a quarter such as 2024Q4", r"\d{4}Q[1-4]", _quarter),
    _form("a date such as 2024-12-31 23:00", _DATETIME, datetime.datetime.fromisoformat),
    _form(
        "a date such as 2024-12-31 23:00+01:00",
        _DATETIME + _ZONE,
        datetime.datetime.fromisoformat,
    ),
)
"""All forms. Integers can also be dates, see `COMPACT_FORMS`."""

READ_COMPACT_FORMS = (
    _form("a date such as 20240131", r"(19|20)\d{6}", _compact_date),
    _form("a month such as 202401", r"(19|20)\d{4}", _compact_month),
)
COMPACT_FORMS = (
    *READ_COMPACT_FORMS,
    _form("a time such as 2024013123", r"(19|20)\d{8}", _compact_datetime("%Y%m%d%H")),
    _form("a time such as 202401312359", r"(19|20)\d{10}", _compact_datetime("%Y%m%d%H%M")),
    _form("a time such as 20240131235959", r"(19|20)\d{12}", _compact_datetime("%Y%m%d%H%M%S")),
)
"""Integer forms that can be times from 1900 to 2099. Those with a time of day are rejected, because
10-digit integers are also seconds since 1970."""

ADVICE = (
    "Write dates as 2024-01-31 or 2024-01-31 23:00, or subtract a number from integers that only "
    "look like dates."
)


def parse_times(cells: Sequence[str], lines: Sequence[int], column: str) -> list[Time]:
    """Converts a column's cells to times in one form.

    6-digit or 8-digit integers are months or dates if all are valid ones from 1900 to 2099, such as
    202401 and 20240131.

    Args:
        cells: list of strings.
        lines: list of ints, each cell's line number, for error messages.
        column: string, column name, for error messages.

    Raises:
        ValueError: if a cell has none of the forms, two cells have different forms, or only some of
            the integers could be dates.
    """
    form: TimeForm | None = None
    times: list[Time] = []
    for index, cell in enumerate(cells):
        cell = cell.strip()
        cell_form = next((item for item in FORMS if item.pattern.fullmatch(cell)), None)
        time = None if cell_form is None else _parsed(cell_form, cell)
        if cell_form is None or time is None:
            raise ValueError(
                "Expected an integer, or a date such as 2024-12-31 or 2024-12-31 23:00, in column "
                f"{column!r}, line {lines[index]}. Received: {shown_cell(cells[index])}. Write "
                "dates as year-month-day."
            )
        form = form or cell_form
        if cell_form is not form:
            raise ValueError(
                f"Expected times of the same kind in column {column!r}. Received: {cell!r} in line "
                f"{lines[index]}, {cell_form.name}, after {cells[index - 1].strip()!r}, "
                f"{form.name}. Write all times in one form."
            )
        times.append(time)
    if form is INTEGER:
        return _parse_integers([cell.strip() for cell in cells], lines, column)
    return times


def _parsed(form: TimeForm, cell: str) -> Time | None:
    """Returns a cell's time, or `None` if the day or the time of day does not exist."""
    try:
        return form.parse(cell)
    except ValueError:
        return None


def _parse_integers(cells: Sequence[str], lines: Sequence[int], column: str) -> list[Time]:
    """Returns integers, or dates if all integers are compact dates or all are compact months."""
    for form in COMPACT_FORMS:
        times = [_parsed(form, cell) if form.pattern.fullmatch(cell) else None for cell in cells]
        dates = [time for time in times if time is not None]
        if not dates:
            continue
        if len(dates) < len(cells):
            like, index = times.index(dates[0]), times.index(None)
            raise ValueError(
                f"Expected times of the same kind in column {column!r}. Received: {cells[index]!r} "
                f"in line {lines[index]}, an integer, and {cells[like]!r} in line {lines[like]}, "
                f"which can be {form.name}. {ADVICE}"
            )
        if form not in READ_COMPACT_FORMS:
            raise ValueError(
                f"Expected an integer or a date in column {column!r}, line {lines[0]}. Received: "
                f"{cells[0]!r}, which can be {form.name}, or a number of seconds. {ADVICE}"
            )
        return dates
    return [int(cell) for cell in cells]
