from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_attn.export._types import Arrays, Run

if TYPE_CHECKING:
    import tensorflow as tf

HUGE = 1e6
"""Absolute value from which a number does not count for the magnitude of others. Such numbers are
constants, for example the logits of impossible tokens."""


def largest_difference(
    expected: "Mapping[str, tf.Tensor]", run: Run, feed: Arrays
) -> tuple[float, str]:
    """Returns the largest difference of all outputs, and a text that names the output."""
    actual = run(**feed)
    largest, reason = 0.0, ""
    for name, value in expected.items():
        different, magnitude = difference(keras.ops.convert_to_numpy(value), actual[name])
        if different > largest:
            largest, reason = different, f"the output {name!r} with {magnitude}"
    return largest, reason


def difference(value: np.ndarray, actual: np.ndarray) -> tuple[float, str]:
    """Returns the largest difference between two arrays, and a text that describes it.

    The difference is divided by the magnitude of the value if this is above 1, see `magnitudes`. It
    is infinite if the shapes differ, if integers differ, or if an array contains NaN.
    """
    if value.shape != actual.shape:
        return float("inf"), f"shape {actual.shape} instead of {value.shape}"
    if value.dtype.kind in "biu":  # integers must be equal
        if np.array_equal(value, actual):
            return 0.0, ""
        return float("inf"), f"{int((value != actual).sum())} other values"
    value = value.astype("float64")
    with np.errstate(invalid="ignore"):  # inf - inf is NaN; equal values are set to 0 below
        values = np.abs(value - actual) / np.maximum(magnitudes(value), 1)
    values = np.where(value == actual, 0, values)
    if np.isnan(values).any():
        return float("inf"), "values that are not numbers"
    largest = float(values.max(initial=0))
    return largest, f"a difference of {largest}"


def magnitudes(value: np.ndarray) -> np.ndarray:
    """Returns the magnitude of each value, to which rounding errors are relative.

    A value `y_ij` of a matrix product `x_i . w_j` is a sum of terms, and its rounding error is
    relative to the terms. Near 0, the terms are much larger than the sum. But in the same row, with
    the same `x_i`, and in the same column, with the same `w_j`, other sums are as large as the
    terms. So the magnitude is the smaller one of the largest absolute value of the row and the
    largest absolute value of the column. A large number in one column does not hide the errors
    of columns or rows of small numbers.

    Args:
        value: Float array `(..., columns)`.
    """
    sizes = np.abs(value)
    if value.ndim < 2:
        return sizes
    terms = np.where(sizes < HUGE, sizes, 0)
    rows = terms.max(axis=-1, keepdims=True, initial=0)
    columns = terms.max(axis=tuple(range(value.ndim - 1)), keepdims=True, initial=0)
    return np.maximum(sizes, np.minimum(rows, columns))
