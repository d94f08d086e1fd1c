"""Season, window, lags and calendar columns for series, from the frequency of their times."""

import datetime
from collections.abc import Sequence
from typing import Any

DAYS = {"hour": 1 / 24, "day": 1, "week": 7, "year": 365.25}
"""Lengths of the periods of calendar columns, in days."""

HARMONICS = {"hour": 1, "day": 3, "week": 3, "year": 2}
"""Maximum numbers of harmonics. Three harmonics describe any pattern of the days of a week."""

LONGEST_HORIZON = 48
"""Maximum number of time steps to predict, if the user does not choose it: two days of hours."""

LONGEST_WINDOW = 200
"""Time steps of a window that contains several seasons. The encoder reads them one by one."""


def choose_season(times: Sequence[Any]) -> int:
    """Returns the number of rows in the main season of a series.

    It is a day for steps of a minute to less than a day, a week for steps of a day to less than a
    week, and a year for steps of a week to less than a year: 24 for hours, 7 for days, 52 for
    weeks, 12 for months and 4 for quarters. For steps of less than a minute, it is an hour.

    Args:
        times: List of at least two times with equal steps: integers, dates or datetimes.

    Returns:
        Int. It is 1 for integers, for steps of a year, and if the season is not a whole number of
        rows.

    Example:

    >>> import datetime
    >>> from keras_attn.forecasting import choose_season
    >>> choose_season([datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)])
    12
    """
    step = _step_days(times)
    if step is None:
        return 1
    limits = {1 / 1440: "hour", 1: "day", 7: "week", 365: "year"}
    period = next((DAYS[name] for limit, name in limits.items() if step < limit), 0)
    rows = period / step
    # Months and weeks divide a year only approximately.
    return round(rows) if abs(rows - round(rows)) < 0.03 * rows else 1


def longer_seasons(times: Sequence[Any], season: int) -> list[int]:
    """Returns the numbers of rows in the periods that are longer than the main season.

    Args:
        times: List of times with equal steps: integers, dates or datetimes.
        season: Positive int, rows in the main season, see `choose_season`.

    Returns:
        List of ints, for `score_forecasts(longer_seasons=...)`: the days, weeks and years with a
        whole number of rows that the times cover at least twice.

    Example:

    >>> import datetime
    >>> from keras_attn.forecasting import longer_seasons
    >>> first = datetime.datetime(2024, 1, 1)
    >>> longer_seasons([first + datetime.timedelta(hours=hour) for hour in range(400)], season=24)
    [168]
    """
    step = _step_days(times)
    periods = [] if step is None else [days / step for days in DAYS.values()]
    rows = [round(each) for each in periods if abs(each - round(each)) < 1e-6]
    return [each for each in rows if season < each and 2 * each <= len(times)]


def choose_horizon(season: int) -> int:
    """Returns the number of time steps to predict: one season of at most 48 rows, or 6 without one.

    Args:
        season: Positive int, rows in a season; 1 for none.

    Returns:
        Int.

    Example:

    >>> from keras_attn.forecasting import choose_horizon
    >>> choose_horizon(12)
    12
    """
    return min(season, LONGEST_HORIZON) if season > 1 else 6


def choose_window(season: int, horizon: int, num_rows: int) -> int:
    """Returns the number of past time steps that an encoder reads.

    The window contains four seasons, or two or one if more are longer than 200 time steps, or none
    if one is longer; and at least two horizons. It is at most a third of the shortest series, so
    that there are windows to train with, but at least the horizon.

    Args:
        season: Positive int, rows in a season; 1 for none.
        horizon: Positive int, number of time steps to predict.
        num_rows: Positive int, rows of the shortest series in training.

    Returns:
        Int.

    Example:

    >>> from keras_attn.forecasting import choose_window
    >>> choose_window(season=24, horizon=24, num_rows=2000)
    96
    """
    seasons = [count * season for count in (4, 2, 1) if count * season <= LONGEST_WINDOW]
    window = max(2 * horizon, *seasons[:1], 8)
    return max(min(window, num_rows // 3), horizon)


def choose_lags(season: int, horizon: int, window: int) -> list[int]:
    """Returns the lags of a forecaster: the multiples of the season from the horizon to the window.

    Args:
        season: Positive int, rows in a season; 1 for none, which has no lags.
        horizon: Positive int, number of time steps to predict.
        window: Positive int, number of past time steps.

    Returns:
        List of ints, for `AutoregressiveForecaster(lags=...)`.

    Example:

    >>> from keras_attn.forecasting import choose_lags
    >>> choose_lags(season=7, horizon=10, window=30)
    [14, 21, 28]
    """
    first = -(-horizon // season) * season
    return list(range(first, window + 1, season)) if season > 1 else []


def choose_calendar(times: Sequence[Any]) -> list[str]:
    """Returns the names of the calendar columns for a series.

    The periods are the hour, the day, the week and the year, with at most 1, 3, 3 and 2 harmonics.
    A period has columns if the times cover it at least twice and divide it into at least four
    steps. Each harmonic needs at least two steps.

    Args:
        times: List of times with equal steps: integers, dates or datetimes.

    Returns:
        List of strings for `compute_calendar`. It is empty for integers.

    Example:

    >>> import datetime
    >>> from keras_attn.forecasting import choose_calendar
    >>> first = datetime.date(2024, 1, 1)
    >>> choose_calendar([first + datetime.timedelta(day) for day in range(21)])[:3]
    ['week_sin1', 'week_cos1', 'week_sin2']
    """
    step = _step_days(times)
    if step is None:
        return []
    return [
        f"{period}_{function}{harmonic}"
        for period, days in DAYS.items()
        if round(2 * days / step) <= len(times) and days >= 4 * step
        for harmonic in range(1, HARMONICS[period] + 1)
        if 2 * harmonic * step <= days
        for function in ("sin", "cos")
    ]


def _step_days(times):
    """Returns the mean step in days, or `None` for integers and single times."""
    if len(times) < 2 or not isinstance(times[0], datetime.date):
        return None
    return (times[-1] - times[0]) / datetime.timedelta(days=1) / (len(times) - 1)
