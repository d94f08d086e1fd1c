"""Times of the rows of a CSV file: integers, dates, or dates with a time of day."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Time: TypeAlias = int | datetime.date


@dataclass(frozen=True)
class TimeStep:
    """The difference between consecutive times.

    Attributes:
        amount: int between integers, `timedelta` between dates, or `None` for steps of months.
        months: int, number of months between dates on the same day of the month, such as 12 for
            years. 0 if `amount` is the step.
    """

    amount: int | datetime.timedelta | None
    months: int = 0


def parse_time(text: str, line: int) -> Time:
    """Converts a cell to an integer, a date or a datetime.

    Args:
        text: string, the cell.
        line: int, number of the line with the cell, for the error message.

    Raises:
        ValueError: if the cell is neither an integer nor an ISO date.
    """
    text = text.strip()
    for parse in (int, datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            return parse(text)
        except ValueError:
            continue
    raise ValueError(
        f"Expected an integer, or a date such as 2024-12-31 or 2024-12-31 23:00, in line {line}. "
        f"Received: {text!r}."
    )


def time_step(times: Sequence[tuple[int, Time]]) -> TimeStep:
    """Returns the step between consecutive times. All steps must be equal.

    Args:
        times: list of pairs (number of the line, time).

    Raises:
        ValueError: if there are fewer than two times, the times have different kinds, or the steps
            are not equal.
    """
    if len(times) < 2 or len({type(time) for _, time in times}) > 1:
        raise ValueError(
            "Expected at least two times of the same kind: integers, dates, or dates with a time "
            f"of day. Received: {[str(time) for _, time in times[:3]]}."
        )
    step = _difference(times[0][1], times[1][1])
    for (_, before), (line, time) in zip(times, times[1:], strict=False):
        expected = next_times(before, step, 1)[0]
        if time != expected:
            raise ValueError(
                f"Expected the time {expected} after {before}. Received: {time} in line {line}. "
                "Sort the rows, and insert missing rows with empty cells for the targets."
            )
    return step


def _difference(first: Time, second: Time) -> TimeStep:
    if isinstance(first, int) or isinstance(second, int):
        assert isinstance(first, int) and isinstance(second, int)
        step = TimeStep(second - first)
        is_positive = second > first
    else:
        months = 12 * (second.year - first.year) + second.month - first.month
        is_monthly = months > 0 and first.day == second.day and first.day <= 28
        amount = second - first
        is_positive = amount > datetime.timedelta(0)
        step = TimeStep(None, months) if is_monthly else TimeStep(amount)
    if not is_positive:
        raise ValueError(
            f"Expected increasing times. Received: {first} before {second}. Sort the rows."
        )
    return step


def next_times(time: Time, step: TimeStep, number: int) -> list[Time]:
    """Returns the times after a time.

    Args:
        time: the last known time.
        step: the step between times.
        number: int, number of times.
    """
    results: list[Time] = []
    for _ in range(number):
        if isinstance(time, int):
            assert isinstance(step.amount, int)
            time = time + step.amount
        elif step.months:
            month = 12 * time.year + time.month - 1 + step.months
            time = time.replace(year=month // 12, month=month % 12 + 1)
        else:
            assert isinstance(step.amount, datetime.timedelta)
            time = time + step.amount
        results.append(time)
    return results
