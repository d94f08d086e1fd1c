from typing import Any

import numpy as np

from keras_attn._types import TensorLike


def masked_to_nan(values: TensorLike, dtype: str) -> np.ndarray:
    """Converts values to an array, with NaN for masked elements in NumPy's masked arrays.

    `numpy.asarray` would return the data below the mask.

    Args:
        values: Array-like. Masked arrays may also be list elements.
        dtype: String, the result's float dtype.
    """
    with np.errstate(over="ignore"):  # values too large for the dtype become infinite
        return np.asarray(_filled(values, dtype), dtype)


def _filled(values: Any, dtype: str) -> Any:
    if isinstance(values, np.ma.MaskedArray):
        data = np.ma.getdata(values).astype(dtype)
        return np.where(np.ma.getmaskarray(values), np.asarray(np.nan, dtype), data)
    if isinstance(values, (list, tuple)):
        return [_filled(value, dtype) for value in values]
    return values
