"""Times of the rows of a CSV file: integers, dates, or dates with a time of day."""

import datetime
from collections import Counter
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

    @property
    def days(self) -> float:
        """float, the length in days, or of integers their difference."""
        if isinstance(self.amount, datetime.timedelta):
            return self.amount / datetime.timedelta(days=1)
        return 30.4 * self.months if self.amount is None else self.amount


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
    """Returns the most frequent difference between consecutive times.

    If several differences are equally frequent, the smallest of them is the step.

    Args:
        times: list of pairs (number of the line, time).

    Raises:
        ValueError: if there are fewer than two times, they have different kinds, they do not
            increase, or a time is not a whole number of steps after the one before it.
    """
    kinds = {(type(time), getattr(time, "tzinfo", None) is None) for _, time in times}
    if len(times) < 2 or len(kinds) > 1:
        raise ValueError(
            "Expected at least two times of the same kind: integers, dates, or dates with a time "
            f"of day. Received: {[str(time) for _, time in times[:3]]}."
        )
    pairs = list(zip(times, times[1:], strict=False))
    differences = [_difference(before, time, line) for (_, before), (line, time) in pairs]
    counts = Counter(differences)
    step = min(counts, key=lambda each: (-counts[each], each.days))
    for (_, before), (line, time) in pairs:
        if steps_between(before, time, step) is None:
            raise ValueError(
                f"Expected times with equal steps, such as {next_times(before, step, 1)[0]} after "
                f"{before}. Received: {time} in line {line}, which is not a whole number of steps "
                "later. Correct the time."
            )
    return step


def steps_between(first: Time, second: Time, step: TimeStep) -> int | None:
    """Returns the number of steps from a time to a later one, or `None` if it is not an integer.

    Args:
        first: the earlier time.
        second: the later time, of the same kind.
        step: the step between times.
    """
    if isinstance(first, int) or isinstance(second, int):
        assert isinstance(first, int) and isinstance(second, int) and isinstance(step.amount, int)
        number, rest = divmod(second - first, step.amount)
        return None if rest else number
    if step.amount is None:
        number, rest = divmod(_months(first, second), step.months)
        return None if rest or next_times(first, step, number)[-1:] != [second] else number
    assert isinstance(step.amount, datetime.timedelta)
    number, remainder = divmod(second - first, step.amount)
    return None if remainder else number


def _months(first: datetime.date, second: datetime.date) -> int:
    return 12 * (second.year - first.year) + second.month - first.month


def _difference(first: Time, second: Time, line: int) -> TimeStep:
    if isinstance(first, int) or isinstance(second, int):
        assert isinstance(first, int) and isinstance(second, int)
        step = TimeStep(second - first)
        is_positive = second > first
    else:
        months = _months(first, second)
        is_monthly = months > 0 and first.day == second.day and first.day <= 28
        amount = second - first
        is_positive = amount > datetime.timedelta(0)
        step = TimeStep(None, months) if is_monthly else TimeStep(amount)
    if not is_positive:
        raise ValueError(
            f"Expected increasing times. Received: {second} in line {line} after {first}. Sort the "
            "rows, and keep one row for each time."
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
