from typing import Any

from keras import ops

from keras_attn._types import Tensor

SCALINGS = ("mean_abs", "std", "none")
SMALLEST_RATIO = 1e-4
"""Smallest standard deviation, relative to the mean absolute value. Below it, a series counts as
constant, and its scale is the mean absolute value: a tiny scale would make later values huge."""


def series_scale(values: Tensor, observed: Tensor, scaling: str) -> tuple[Any, Any]:
    """Computes the shift and the scale of each series from its observed values.

        "mean_abs"  shift = 0, scale = mean |y|
        "std"       shift = mean y, scale = standard deviation of y, or mean |y| if y is constant
        "none"      shift = 0, scale = 1

    A scale of 0 is replaced by 1, for instance that of a series of zeros or without any value.

    Args:
        values: Float32 tensor of shape `(batch, time, D)`, with 0 for missing values.
        observed: Float32 tensor of the same shape, 1 for observed and 0 for missing values.
        scaling: String, see above.

    Returns:
        Tuple of shift and scale, float32 of shape `(batch, D)`.
    """
    zeros = ops.zeros_like(values[:, 0])  # (B, D)
    if scaling == "none":
        return zeros, zeros + 1.0
    count = ops.maximum(ops.sum(observed, axis=1), 1.0)
    mean_abs = ops.sum(ops.abs(values), axis=1) / count
    shift, scale = zeros, mean_abs
    if scaling == "std":
        shift = ops.sum(values, axis=1) / count
        squares = ops.square((values - shift[:, None]) * observed)
        deviation = ops.sqrt(ops.sum(squares, axis=1) / count)
        scale = ops.where(deviation > SMALLEST_RATIO * mean_abs, deviation, mean_abs)
    return shift, ops.where(scale > 0.0, scale, 1.0)
