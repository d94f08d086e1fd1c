"""Calendar columns: covariates that are computed from the times of a series."""

import calendar
import datetime
import math
import re
from collections.abc import Sequence

import numpy as np

from keras_attn_runtime._array_types import Floats
from keras_attn_runtime._series.times import Time

PERIODS = ("hour", "day", "week", "month", "year")
"""Periods of calendar columns."""

NAME = re.compile(rf"({'|'.join(PERIODS)})_(sin|cos)([1-9])")
"""Pattern for the name of a calendar column."""


def compute_calendar(names: Sequence[str], times: Sequence[Time]) -> Floats:
    """Computes calendar columns: harmonics of the position of each time in a period.

    The name of a column is `PERIOD_FUNCTIONk`, such as `week_sin1` or `year_cos2`. Its values are

        sin(2 pi k p) or cos(2 pi k p)

    p is the position of the time in the period, in [0, 1): 0 at the start of the hour, the day, the
    week (Monday), the month or the year. A year has 365.25 days. The time of day is the local time
    in the file. A date without a time of day is its start.

    Args:
        names: list of strings, column names. PERIOD is "hour", "day", "week", "month" or "year",
            FUNCTION is "sin" or "cos", and k is 1 to 9.
        times: list of dates or datetimes.

    Returns:
        float32 array `(times, names)`.

    Raises:
        ValueError: if a name is unknown, or the times are integers.

    Example:

        compute_calendar(["week_cos1"], [datetime.date(2024, 1, 1)])  # a Monday: [[1.0]]
    """
    matches = [NAME.fullmatch(name) for name in names]
    columns = [match.groups() for match in matches if match]
    if len(columns) < len(names):
        unknown = [name for name, match in zip(names, matches, strict=True) if not match]
        raise ValueError(
            "Expected names of calendar columns such as 'week_sin1' or 'year_cos2', with the "
            f"periods {', '.join(PERIODS)}. Received: {unknown[0]!r}. Correct the name, or use a "
            "newer release if it read the name in a file."
        )
    dates = [time for time in times if isinstance(time, datetime.date)]
    if columns and len(dates) < len(times):
        raise ValueError(
            f"Expected dates, from which the columns {', '.join(names)} are computed. Received: "
            f"{next(time for time in times if isinstance(time, int))}. Write the times as dates."
        )
    positions = {
        period: np.array([_position(time, period) for time in dates])
        for period in {period for period, _, _ in columns}
    }
    functions = {"sin": np.sin, "cos": np.cos}
    values = np.empty((len(times), len(columns)), np.float32)
    for index, (period, function, harmonic) in enumerate(columns):
        angles = 2 * math.pi * int(harmonic) * positions[period]
        values[:, index] = functions[function](angles)
    return values


def _position(time: datetime.date, period: str) -> float:
    """Returns the position of a time in a period, in [0, 1)."""
    seconds = 0.0
    if isinstance(time, datetime.datetime):
        seconds = 3600 * time.hour + 60 * time.minute + time.second + time.microsecond / 1e6
    day = seconds / 86400
    if period == "hour":
        return seconds % 3600 / 3600
    if period == "day":
        return day
    if period == "week":
        return (time.weekday() + day) / 7
    if period == "month":
        return (time.day - 1 + day) / calendar.monthrange(time.year, time.month)[1]
    return (time.timetuple().tm_yday - 1 + day) / 365.25
