from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import TensorLike
from keras_attn.forecasting._masked_to_nan import masked_to_nan


def forecast_windows(
    targets: TensorLike,
    window: int,
    horizon: int,
    past_covariates: TensorLike | None = None,
    future_covariates: TensorLike | None = None,
    stride: int = 1,
) -> dict[str, Any]:
    """Cuts a series into windows with past and future values, for training and evaluation.

    Args:
        targets: Array-like of shape `(time, D)`. NaN marks missing values, as do masked elements in
            a `numpy.ma.MaskedArray`.
        window: Positive int, number of past time steps.
        horizon: Positive int, number of time steps to predict.
        past_covariates: Array-like of shape `(time, C)`, or `None`, without NaN in a window's past.
            Defaults to `None`.
        future_covariates: Array-like of shape `(time, F)`, or `None`, without NaN in a window's
            future. Defaults to `None`.
        stride: Positive int, number of time steps between the windows. The last window ends with
            the series. Defaults to `1`.

    Returns:
        Dict of float32 arrays: `past_targets` `(windows, window, D)`, `future_targets` `(windows,
        horizon, D)` and, for covariates, `past_covariates` `(windows, window, C)` and
        `future_covariates` `(windows, horizon, F)`.

    Raises:
        ValueError: If the series is shorter than `window + horizon`, the shapes do not match, a
            target is infinite, or a covariate is NaN or infinite in float32.

    Example:

    >>> from keras_attn.forecasting import forecast_windows
    >>> windows = forecast_windows([[0.0], [1.0], [2.0], [3.0]], window=2, horizon=1)
    >>> windows["past_targets"][..., 0].tolist(), windows["future_targets"][..., 0].tolist()
    ([[0.0, 1.0], [1.0, 2.0]], [[2.0], [3.0]])
    """
    sizes = {"window": window, "horizon": horizon, "stride": stride}
    for name, size in sizes.items():
        check_positive_integer(name, size)
    # Sums of small NumPy integers could overflow.
    window, horizon, stride = int(window), int(horizon), int(stride)
    series = {"targets": targets}
    series |= {"past_covariates": past_covariates, "future_covariates": future_covariates}
    arrays = {
        name: masked_to_nan(item, "float32") for name, item in series.items() if item is not None
    }
    shapes = {name: array.shape for name, array in arrays.items()}
    length = shapes["targets"][0] if shapes["targets"] else 0
    if any(len(shape) != 2 or shape[0] != length for shape in shapes.values()):
        raise ValueError(
            "Expected targets and covariates of shape (time, features) with the same number of "
            f"time steps. Received: {shapes}."
        )
    if length < window + horizon:
        raise ValueError(
            f"Expected at least window + horizon = {window + horizon} time steps. Received: "
            f"targets with shape {shapes['targets']}. Pad the past with NaN, or choose a shorter "
            "window."
        )
    infinite = np.argwhere(np.isinf(arrays["targets"])).tolist()
    if infinite:
        step, column = infinite[0]
        raise ValueError(
            "Expected targets that are finite in float32, or NaN. Received: "
            f"{arrays['targets'][step, column]} at time step {step}, column {column}. Replace it "
            "with NaN if it is missing."
        )
    starts = list(
        range((length - window - horizon) % stride, length - window - horizon + 1, stride)
    )
    results = {
        "past_targets": _cut(arrays["targets"], starts, window),
        "future_targets": _cut(arrays["targets"], [start + window for start in starts], horizon),
    }
    if "past_covariates" in arrays:
        results["past_covariates"] = _cut(arrays["past_covariates"], starts, window)
    if "future_covariates" in arrays:
        ends = [start + window for start in starts]
        results["future_covariates"] = _cut(arrays["future_covariates"], ends, horizon)
    for name, offset in (("past_covariates", 0), ("future_covariates", window)):
        if name in results and not np.isfinite(results[name]).all():
            number, step, column = np.argwhere(~np.isfinite(results[name]))[0].tolist()
            raise ValueError(
                f"Expected finite {name}. Received: {results[name][number, step, column]} at time "
                f"step {starts[number] + offset + step}, column {column}. Fill in the value: only "
                "targets may be missing."
            )
    return results


def _cut(array: np.ndarray, starts: Sequence[int], length: int) -> np.ndarray:
    return np.stack([array[start : start + length] for start in starts])
