"""Forecast error measures, computed with NumPy."""

import numpy as np

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorLike
from keras_attn.forecasting._masked_to_nan import masked_to_nan


def mean_absolute_scaled_error(
    actual: TensorLike, predicted: TensorLike, history: TensorLike, season: int = 1
) -> float:
    """Computes a series' mean absolute scaled error (MASE).

        MASE = mean |y_t - f_t| / mean over the history of |y_t - y_{t - season}|

    The denominator is the seasonal naive forecast's error in the history. If the MASE is below 1,
    the forecast's error is smaller. See [Hyndman and Koehler,
    2006](https://doi.org/10.1016/j.ijforecast.2006.03.001). Missing values, which are NaN, are
    ignored.

    Args:
        actual: Array-like of any shape, the true values y. Masked elements are missing values.
        predicted: Array-like with the same shape, the forecasts f.
        history: Array-like of shape `(time,)`, the values before the forecasts.
        season: Positive int, number of time steps in a season. Defaults to `1`.

    Returns:
        Float. It is NaN if no value is observed, or all differences in the history are 0 or
        missing.

    Raises:
        ValueError: If the shapes of `actual` and `predicted` differ, the season is not a positive
            integer, or the history is not longer than a season.

    Example:

    >>> from keras_attn.forecasting import mean_absolute_scaled_error
    >>> mean_absolute_scaled_error([5.0, 6.0], [4.0, 6.0], history=[1.0, 2.0, 3.0])
    0.5
    """
    check_positive_integer("season", season)
    actual, predicted = _same_shape(actual, predicted)
    history = masked_to_nan(history, "float64")
    season = int(season)  # an unsigned NumPy integer has no negative
    if history.ndim != 1 or len(history) <= season:
        raise ValueError(
            f"Expected history of shape (time,) with more than season={season} values. Received: "
            f"history with shape {history.shape}."
        )
    scale = _mean(np.abs(history[season:] - history[:-season]))
    return float(_mean(np.abs(actual - predicted)) / scale) if scale > 0 else float("nan")


def sample_crps(actual: TensorLike, samples: TensorLike) -> float:
    """Computes the continuous ranked probability score (CRPS) for sampled forecasts.

        CRPS = mean |x_i - y| - sum over i, j of |x_i - x_j| / (2 N (N - 1))

    The formula is the estimate by [Gneiting and Raftery,
    2007](https://doi.org/10.1198/016214506000001437), equation 21, in a form that is unbiased even
    for few samples. For a single sample, the CRPS is the absolute error. The result is the mean
    CRPS over all values.

    Args:
        actual: Array-like of any shape, the true values y. Missing values, which are NaN, are
            ignored.
        samples: Array-like of shape `(N, *shape of actual)`, forecast samples x.

    Returns:
        Float, in the values' units. Lower is better. It is NaN if no value is observed.

    Raises:
        ValueError: If the shapes do not match.

    Example:

    >>> from keras_attn.forecasting import sample_crps
    >>> sample_crps([1.0], [[0.0], [2.0]])
    0.0
    """
    samples = np.sort(masked_to_nan(samples, "float64"), axis=0)
    actual, _ = _same_shape(actual, samples[0])
    number = len(samples)
    errors = np.abs(samples - actual).mean(axis=0)
    if number > 1:
        # The sum of |x_i - x_j| over all pairs, from the sorted samples.
        factors = (2 * np.arange(number) - number + 1).reshape(-1, *[1] * actual.ndim)
        errors = errors - (factors * samples).sum(axis=0) / (number * (number - 1))
    return _mean(errors)


def interval_coverage(actual: TensorLike, low: TensorLike, high: TensorLike) -> float:
    """Computes the share of true values inside their prediction intervals.

    Args:
        actual: Array-like of any shape, the true values. Missing values, which are NaN, are
            ignored.
        low: Array-like with the same shape, lower interval ends.
        high: Array-like with the same shape, upper interval ends.

    Returns:
        Float in [0, 1]. It is NaN if no value is observed.

    Raises:
        ValueError: If the shapes differ.

    Example:

    >>> from keras_attn.forecasting import interval_coverage
    >>> interval_coverage([1.0, 5.0], low=[0.0, 0.0], high=[2.0, 2.0])
    0.5
    """
    actual, low = _same_shape(actual, low)
    actual, high = _same_shape(actual, high)
    inside = np.where(np.isnan(actual), np.nan, (low <= actual) & (actual <= high))
    return _mean(inside)


def _same_shape(actual, other):
    actual, other = (masked_to_nan(values, "float64") for values in (actual, other))
    if actual.shape != other.shape:
        raise ValueError(
            "Expected true values and forecasts of the same shape. Received: shapes "
            f"{actual.shape} and {other.shape}."
        )
    return actual, other


def _mean(values):
    """Returns the mean over values that are not NaN."""
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")
