"""A series' step: the difference between consecutive times."""

import calendar
import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from keras_attn_runtime._series.times import Time

ADVICE_OFFSET = "Write local times without the offset, or times in UTC."

MONTH_END = 31
"""`TimeStep.day` if rows are at the ends of months."""


@dataclass(frozen=True)
class TimeStep:
    """The difference between consecutive times.

    Attributes:
        amount: int between integers, `timedelta` between dates, or `None` for monthly steps.
        months: int, number of months between dates, such as 3 for quarters and 12 for years. 0 if
            `amount` is the step.
        day: int, day of the month in all dates, if `months` is the step. In a shorter month, its
            last day: 31 is the end of every month, 30 also the end of February.
    """

    amount: int | datetime.timedelta | None
    months: int = 0
    day: int = 0

    @property
    def days(self) -> float:
        """float, the length in days, or for integers their difference."""
        if isinstance(self.amount, datetime.timedelta):
            return self.amount / datetime.timedelta(days=1)
        return 30.4 * self.months if self.amount is None else self.amount


def time_step(times: Sequence[tuple[int, Time]], where: str = "") -> TimeStep:
    """Returns the most frequent difference between consecutive times.

    If several differences are equally frequent, the smallest is the step.

    Args:
        times: list of pairs (line number, time).
        where: string that follows line numbers in error messages, such as " of the series 'north'".
            Default: "", a single series.

    Raises:
        ValueError: if there are fewer than two times, their kinds differ, they do not increase, or
            a time is not a whole number of steps after the previous one.
    """
    kinds = {(type(time), getattr(time, "tzinfo", None) is None) for _, time in times}
    if len(times) < 2 or len(kinds) > 1:
        raise ValueError(
            "Expected at least two times of the same kind: integers, dates, or dates with a time "
            f"of day. Received: {[str(time) for _, time in times[:3]]}{where}."
        )
    changes = _changes_of_offset(times)
    if changes and len({_clock(time) for _, time in times}) == 1:
        before, line, time = changes[0]
        raise ValueError(
            "Expected days with the same length. Received: "
            f"{time} in line {line}{where} after {before}, a day over a change of the clock. The "
            f"offsets of later times are unknown. {ADVICE_OFFSET}"
        )
    pairs = list(zip(times, times[1:], strict=False))
    day = _day_of_month([time for _, time in times])
    differences = [
        _difference(before, time, f"line {line}{where}", day) for (_, before), (line, time) in pairs
    ]
    counts = Counter(differences)
    step = min(counts, key=lambda item: (-counts[item], item.days))
    for (_, before), (line, time) in pairs:
        if steps_between(before, time, step) is None:
            raise ValueError(
                f"Expected times with equal steps, such as {next_times(before, step, 1)[0]} after "
                f"{_expected(before, step)}. Received: {time} in line {line}{where} after "
                f"{before}, which is not a whole number of steps later. "
                f"{ADVICE_OFFSET if changes else 'Correct the times.'}"
            )
    return step


def steps_between(first: Time, second: Time, step: TimeStep) -> int | None:
    """Returns the number of steps from a time to a later one, or `None` if it is not an integer.

    Args:
        first: the earlier time.
        second: the later time, of the same type.
        step: the step between times.
    """
    if isinstance(first, int) or isinstance(second, int):
        assert isinstance(first, int) and isinstance(second, int) and isinstance(step.amount, int)
        number, rest = divmod(second - first, step.amount)
        return None if rest else number
    if step.amount is None:
        number, rest = divmod(_months(first, second), step.months)
        is_step = first == _later(first, 0, step.day) and second == _later(
            first, number * step.months, step.day
        )
        return number if is_step and not rest else None
    assert isinstance(step.amount, datetime.timedelta)
    number, remainder = divmod(second - first, step.amount)
    return None if remainder else number


def _months(first: datetime.date, second: datetime.date) -> int:
    return 12 * (second.year - first.year) + second.month - first.month


def _later(time: datetime.date, months: int, day: int) -> datetime.date:
    """Returns a day in a later month, or its last day if the month is shorter."""
    year, month = divmod(12 * time.year + time.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return time.replace(year=year, month=month + 1, day=min(day, last))


def _expected(time: Time, step: TimeStep) -> Time:
    """Snaps a date to the day of the month used by a monthly step."""
    return time if isinstance(time, int) or not step.months else _later(time, 0, step.day)


def _day_of_month(times: Sequence[Time]) -> int:
    """Returns the most frequent day of the month, or the last among equally frequent days.

    Days after the end of a month count as its end.
    """
    dates = [time for time in times if not isinstance(time, int)]
    ends = Counter((time.day, calendar.monthrange(time.year, time.month)[1]) for time in dates)
    counts = {
        day: sum(count for (present, end), count in ends.items() if present == min(day, end))
        for day in range(1, MONTH_END + 1)
    }
    return max(counts, key=lambda day: (counts[day], day))


def _difference(first: Time, second: Time, place: str, day: int) -> TimeStep:
    if isinstance(first, int) or isinstance(second, int):
        assert isinstance(first, int) and isinstance(second, int)
        step = TimeStep(second - first)
        is_positive = second > first
    else:
        amount = second - first
        is_positive = amount > datetime.timedelta(0)
        step = TimeStep(amount)
        months = _months(first, second)
        if months > 0:
            calendar_step = TimeStep(None, months, day)
            is_monthly = steps_between(first, second, calendar_step) is not None
            step = calendar_step if is_monthly else step
    if not is_positive:
        raise ValueError(
            f"Expected increasing times. Received: {second} in {place} after {first}. Sort the "
            "rows, and keep one row for each time of a series. If the file has several series, "
            "name their column with --series-column."
        )
    return step


def next_times(time: Time, step: TimeStep, number: int) -> list[Time]:
    """Returns the times after a time.

    Args:
        time: the last time.
        step: the step between times.
        number: int, number of times.

    Raises:
        ValueError: if a time is after the year 9999.
    """
    results: list[Time] = []
    for _ in range(number):
        try:
            time = _next_time(time, step)
        except (OverflowError, ValueError) as error:
            raise ValueError(
                f"Expected times before the year 10000. Received: {time}, which is followed by "
                "another time. Correct the times."
            ) from error
        results.append(time)
    return results


def _next_time(time: Time, step: TimeStep) -> Time:
    if isinstance(time, int):
        assert isinstance(step.amount, int)
        return time + step.amount
    if step.months:
        return _later(time, step.months, step.day)
    assert isinstance(step.amount, datetime.timedelta)
    return time + step.amount


def _changes_of_offset(times: Sequence[tuple[int, Time]]) -> list[tuple[Time, int, Time]]:
    """Returns pairs of consecutive times with different UTC offsets.

    Returns:
        List of tuples (first time, second time's line, second time).
    """
    pairs = zip(times, times[1:], strict=False)
    return [
        (before, line, time)
        for (_, before), (line, time) in pairs
        if _offset(before) != _offset(time)
    ]


def _offset(time: Time) -> datetime.timedelta | None:
    return time.utcoffset() if isinstance(time, datetime.datetime) else None


def _clock(time: Time) -> datetime.time | None:
    return time.time() if isinstance(time, datetime.datetime) else None
