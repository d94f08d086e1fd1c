from typing import Any

import keras
import numpy as np


def largest_difference(expected: Any, run: Any, feed: Any) -> Any:
    """Returns the largest difference of all outputs, and a text that names the output."""
    actual = run(**feed)
    largest, reason = 0.0, ""
    for name, value in expected.items():
        different, found = difference(keras.ops.convert_to_numpy(value), actual[name])
        if different > largest:
            largest, reason = different, f"the output {name!r} with {found}"
    return largest, reason


def difference(value: Any, actual: Any) -> Any:
    """Returns the largest difference between two arrays, and a text that describes it.

    The difference is relative where the absolute value of `value` is above 1. It is infinite if the
    shapes differ, if integers differ, or if an array contains NaN.
    """
    if value.shape != actual.shape:
        return float("inf"), f"shape {actual.shape} instead of {value.shape}"
    if value.dtype.kind in "biu":  # integers must be equal
        if np.array_equal(value, actual):
            return 0.0, ""
        return float("inf"), f"{int((value != actual).sum())} other values"
    value = value.astype("float64")
    with np.errstate(invalid="ignore"):  # inf - inf is NaN; equal values are set to 0 below
        values = np.abs(value - actual) / np.maximum(np.abs(value), 1)
    values = np.where(value == actual, 0, values)
    if np.isnan(values).any():
        return float("inf"), "values that are not numbers"
    largest = float(values.max(initial=0))
    return largest, f"a difference of {largest}"
