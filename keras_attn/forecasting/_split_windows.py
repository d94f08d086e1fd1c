from collections.abc import Sequence

import numpy as np

from keras_attn.forecasting._forecast_windows import forecast_windows
from keras_attn.forecasting._series import Series

Windows = dict[str, np.ndarray]


def split_windows(
    series: Sequence[Series], window: int, horizon: int, origins: int = 3, stride: int = 1
) -> tuple[Windows, Windows, Windows]:
    """Cuts series into windows for training, validation and test, in the order of time.

    The test forecasts the last `origins * horizon` rows of each series: one horizon after each
    origin, with all values before it. Validation forecasts the horizon before them, and training
    uses the earlier rows. No window contains rows of two series.

    Args:
        series: List of `Series`. Their covariates become past and future covariates.
        window: Positive int, number of past time steps.
        horizon: Positive int, number of time steps to predict.
        origins: Positive int, number of forecasts of each series in the test. Defaults to `3`.
        stride: Positive int, number of time steps between training windows. Defaults to `1`.

    Returns:
        Tuple `(train, valid, test)` of dicts as from `forecast_windows`. The test has the rows
        `(series, origins)`. The validation has one window of each series, or of a single series one
        for each of the last `horizon` ends.

    Raises:
        ValueError: If a series has fewer rows than `window + (origins + 2) * horizon`, or a
            covariate is missing.

    Example:

    >>> from keras_attn.forecasting import generate_series, split_windows
    >>> parts = split_windows(generate_series(2, length=100), window=24, horizon=12)
    >>> [len(each["past_targets"]) for each in parts]  # training, validation, test
    [34, 2, 6]
    """
    shortest = min(series, key=len)
    rows = window + (origins + 2) * horizon
    if len(shortest) < rows:
        where = f" of the series {shortest.name!r}" if shortest.name else ""
        raise ValueError(
            f"Expected at least window + (origins + 2) * horizon = {rows} rows{where}. Received: "
            f"{len(shortest)} rows, window={window}, horizon={horizon}, origins={origins}. Choose "
            "smaller sizes, or remove the series."
        )
    parts: tuple[list[Windows], ...] = ([], [], [])
    for each in series:
        end = len(each) - origins * horizon
        extra = horizon - 1 if len(series) == 1 else 0
        bounds = (0, end - horizon), (end - horizon - window - extra, end), (end - window, None)
        for part, rows, step in zip(parts, bounds, (stride, 1, horizon), strict=True):
            known = each.covariates[: len(each)][slice(*rows)]
            known = known if known.shape[1] else None
            targets = each.targets[slice(*rows)]
            part.append(forecast_windows(targets, window, horizon, known, known, step))
    train, valid, test = (
        {name: np.concatenate([each[name] for each in part]) for name in part[0]} for part in parts
    )
    return train, valid, test
