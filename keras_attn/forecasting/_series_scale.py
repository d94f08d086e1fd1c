from collections.abc import Sequence
from typing import Any, TypeAlias

from keras import ops

from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_finite

SCALINGS = ("mean_abs", "std", "none")
SMALLEST_RATIO = 1e-4
"""Smallest standard deviation, relative to the mean absolute value. Below this ratio, a series
counts as constant, and its scale is the mean absolute value. A tiny scale would make scaled values
in later steps huge."""

SMALLEST_UNIT = 1e-37
"""Smaller values count as 0 in a division, because some processors flush them to 0."""

Scaling: TypeAlias = str | Sequence[Sequence[float]]
"""An element of `SCALINGS`, or two lists: shift and scale for each target."""


def series_scale(values: Tensor, observed: Tensor, scaling: Scaling) -> tuple[Any, Any]:
    """Computes shift and scale for each series from its observed values.

        "mean_abs"  shift = 0, scale = mean |y|
        "std"       shift = mean y, scale = standard deviation of y, or mean |y| if y is constant
        "none"      shift = 0, scale = 1
        (a, b)      shift = a, scale = b

    A scale of 0 is replaced by 1, for series of zeros and series without any value.

    Args:
        values: Float32 tensor of shape `(batch, time, D)`, with 0 for missing values.
        observed: Float32 tensor with the same shape, 1 for observed and 0 for missing values.
        scaling: `Scaling`, see the table above.

    Returns:
        Tuple of shift and scale, float32 of shape `(batch, D)`.
    """
    zeros = ops.zeros_like(values[:, 0])  # (B, D)
    if not isinstance(scaling, str):
        shift, scale = (ops.convert_to_tensor(part, "float32") for part in scaling)
        return zeros + shift, zeros + scale
    if scaling == "none":
        return zeros, zeros + 1.0
    count = ops.maximum(ops.sum(observed, axis=1), 1.0)
    # In units of the largest value, neither squares nor sums overflow or underflow.
    largest = ops.max(ops.abs(values), axis=1)  # (B, D)
    unit = ops.where(largest > SMALLEST_UNIT, largest, 1.0)
    # XLA multiplies by 1 / unit, which is flushed to 0 above 8e37. Powers of two are exact.
    shrink = ops.where(unit > 1.0, 2.0**-8, 1.0)
    values = values * shrink[:, None] / (unit * shrink)[:, None]
    mean_abs = ops.sum(ops.abs(values), axis=1) / count
    shift, scale = zeros, mean_abs
    if scaling == "std":
        shift = ops.sum(values, axis=1) / count
        squares = ops.square((values - shift[:, None]) * observed)
        deviation = ops.sqrt(ops.sum(squares, axis=1) / count)
        scale = ops.where(deviation > SMALLEST_RATIO * mean_abs, deviation, mean_abs)
    return unit * shift, ops.where(unit * scale > 0.0, unit * scale, 1.0)


def checked_scaling(scaling: Any, num_targets: int) -> Scaling:
    """Returns a forecaster's argument `scaling`, with lists instead of other sequences.

    Raises:
        ValueError: If `scaling` is neither one of `SCALINGS` nor a pair of lists: the shifts,
            `num_targets` finite numbers, and the scales, `num_targets` positive finite numbers.
    """
    if isinstance(scaling, str) and scaling in SCALINGS:
        return scaling
    parts = _shifts_and_scales(scaling, num_targets)
    if parts is None:
        raise ValueError(
            f"Expected scaling to be one of {SCALINGS}, or a tuple of shifts and positive scales "
            f"with num_targets={num_targets} numbers each. Received: scaling={scaling!r}."
        )
    return parts


def checked_covariate_scaling(name: str, scaling: Any, num_covariates: int) -> Any:
    """Returns the covariate scaling, with lists instead of other sequences.

    Args:
        name: String, argument name.
        scaling: Tuple of shifts and scales, or `None`.
        num_covariates: Int, number of covariates.

    Raises:
        ValueError: If `scaling` is neither `None` nor a pair of lists: the shifts, `num_covariates`
            finite numbers, and the scales, `num_covariates` positive finite numbers.
    """
    parts = None if scaling is None else _shifts_and_scales(scaling, num_covariates)
    if parts is None and scaling is not None:
        raise ValueError(
            f"Expected {name} to be a tuple of shifts and positive scales with one number for each "
            f"of {num_covariates} covariates. Received: {name}={scaling!r}."
        )
    return parts


def scale_covariates(covariates: Tensor, scaling: Any) -> Tensor:
    """Returns `(covariates - shift) / scale` in float32, or the covariates without scaling.

    Args:
        covariates: Tensor of shape `(batch, time, C)`.
        scaling: List with the lists of shifts and scales, or `None`.
    """
    covariates = ops.cast(covariates, "float32")
    if scaling is None:
        return covariates
    shift, scale = (ops.convert_to_tensor(part, "float32") for part in scaling)
    return (covariates - shift) / scale


def _shifts_and_scales(scaling, number):
    """Converts a pair of sequences to two lists: shifts and scales.

    Returns:
        List of two lists. `None` if `scaling` is not a pair of sequences of `number`
        finite numbers, or if a scale is not positive.
    """
    is_pair = isinstance(scaling, list | tuple) and len(scaling) == 2
    pair = scaling if is_pair else ((), ())
    parts = [list(part) if isinstance(part, list | tuple) else [] for part in pair]
    if not is_pair or any(len(part) != number or not all(map(is_finite, part)) for part in parts):
        return None
    return parts if all(scale > 0 for scale in parts[1]) else None
