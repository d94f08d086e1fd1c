import datetime
from collections.abc import Sequence

import numpy as np

from keras_attn.forecasting._import_runtime import import_runtime


def compute_calendar(names: Sequence[str], times: Sequence[datetime.date]) -> np.ndarray:
    """Computes covariates from times: harmonics of the hour, day, week, month and year.

    The name of a column is `PERIOD_FUNCTIONk`, such as `"week_sin1"` or `"year_cos2"`. Its values
    are

        sin(2 pi k p) or cos(2 pi k p)

    with the position p of the time in the period: 0 at the start of the hour, the day, the week
    (Monday), the month or the year, and below 1 at its end. A year has 365.25 days. These are the
    terms of a Fourier series, see [Hyndman and Athanasopoulos,
    2021](https://otexts.com/fpp3/useful-predictors.html). The runtime computes the same numbers
    from the time column of a CSV file, if the names are `calendar_columns` of the export.

    Args:
        names: List of strings. PERIOD is `"hour"`, `"day"`, `"week"`, `"month"` or `"year"`,
            FUNCTION is `"sin"` or `"cos"`, and k is 1 to 9.
        times: List of dates or datetimes. The offset from UTC of a datetime is ignored: the time of
            day is the local one.

    Returns:
        Float32 array of shape `(times, names)`.

    Raises:
        ValueError: If a name is unknown, or the times are integers.
        ImportError: If `keras_attn_runtime` is not installed.

    Example:

    >>> import datetime
    >>> from keras_attn.forecasting import compute_calendar
    >>> days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 8)]  # two Mondays
    >>> compute_calendar(["week_sin1", "week_cos1"], days).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    return import_runtime().compute_calendar(names, times)
