from collections.abc import Mapping, Sequence

import numpy as np

from keras_attn.forecasting._forecast_errors import (
    interval_coverage,
    mean_absolute_scaled_error,
    sample_crps,
)
from keras_attn.forecasting._series import Series


def score_forecasts(
    series: Sequence[Series],
    results: Mapping[str, np.ndarray],
    targets: Sequence[str],
    origins: int,
    season: int,
    quantile_levels: Sequence[float] = (0.05, 0.5, 0.95),
    longer_seasons: Sequence[int] = (),
) -> dict[str, dict[str, float]]:
    """Compares the forecasts of a test with the true values and with naive forecasts.

    Args:
        series: List of `Series`, as for `split_windows`.
        results: Dict of arrays, the forecasts of the test windows of `split_windows`: `quantiles`
            `(series * origins, horizon, D, Q)` and `paths` `(series * origins, paths, horizon, D)`.
        targets: List of strings, names of the D targets.
        origins: Positive int, number of forecasts of each series.
        season: Positive int, rows in a season.
        quantile_levels: List of Q floats in increasing order. The middle one is the forecast.
            Defaults to `(0.05, 0.5, 0.95)`.
        longer_seasons: List of ints, further seasons for naive forecasts, see `longer_seasons`.
            Defaults to `()`.

    Returns:
        Dict from the names of targets to dicts of numbers, which are NaN without observed values:

        - `mase`: mean over the series of `mean_absolute_scaled_error`, with the season;
        - `mase_naive`, `mase_seasonal_naive`: the same for the last value, and for the values one
          season earlier; `mase_naive_168` for the values 168 rows earlier, if 168 is one of
          `longer_seasons`;
        - `mean_absolute_error`, in the units of the target;
        - `relative_crps`: `sample_crps`, relative to the mean absolute value of the series;
        - `coverage`: share of true values between the first and the last quantile;
        - `interval`: the share that is expected, such as 0.9.

    Example:

    >>> import numpy as np
    >>> from keras_attn.forecasting import generate_series, score_forecasts
    >>> series = generate_series(2, length=50)
    >>> truth = np.stack([each.targets[-12:] for each in series])
    >>> results = {"quantiles": truth[..., None], "paths": truth[:, None]}
    >>> scores = score_forecasts(series, results, ["y"], 1, season=12, quantile_levels=[0.5])
    >>> scores["y"]["mase"], scores["y"]["mean_absolute_error"]
    (0.0, 0.0)
    """
    quantiles, paths = results["quantiles"], np.moveaxis(results["paths"], 1, 0)
    middle = quantiles[..., len(quantile_levels) // 2]
    _, horizon, num_targets = middle.shape
    count = origins * horizon
    history = [each.targets[:-count] for each in series]
    actual = np.stack([each.targets[-count:] for each in series])  # (N, origins * horizon, D)
    levels = [np.nanmean(np.abs(each.targets), axis=0) for each in series]
    scales = np.repeat(np.stack(levels)[:, None], origins, axis=0)  # (N * origins, 1, D)
    forecasts = {
        "mase": middle,
        "mase_naive": _earlier_values(series, 1, origins, horizon),
        "mase_seasonal_naive": _earlier_values(series, season, origins, horizon),
    }
    for each in longer_seasons:
        forecasts[f"mase_naive_{each}"] = _earlier_values(series, each, origins, horizon)
    forecasts = {name: each.reshape(actual.shape) for name, each in forecasts.items()}
    actual_rows = actual.reshape(middle.shape)
    scores = {}
    for index, target in enumerate(targets):
        truth = actual_rows[..., index]
        scale = scales[..., index]
        scores[target] = {
            name: _mean_mase(actual[..., index], each[..., index], history, index, season)
            for name, each in forecasts.items()
        } | {
            "mean_absolute_error": _nan_mean(np.abs(truth - middle[..., index])),
            "relative_crps": sample_crps(truth / scale, paths[..., index] / scale),
            "coverage": interval_coverage(
                truth, quantiles[..., index, 0], quantiles[..., index, -1]
            ),
            "interval": quantile_levels[-1] - quantile_levels[0],
        }
    return scores


def _earlier_values(series, lag, origins, horizon):
    """Returns the naive forecasts: the last `lag` values before each origin, repeated."""
    forecasts = []
    for each in series:
        for origin in range(origins):
            start = len(each) - (origins - origin) * horizon
            forecasts.append(each.targets[start - lag + np.arange(horizon) % lag])
    return np.stack(forecasts)


def _mean_mase(actual, predicted, history, index, season):
    errors = [
        mean_absolute_scaled_error(*each[:2], each[2][:, index], season)
        for each in zip(actual, predicted, history, strict=True)
    ]
    return _nan_mean(np.array(errors))


def _nan_mean(values):
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")
