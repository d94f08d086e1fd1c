"""Masked elements of NumPy's masked arrays, whose mask `numpy.asarray` would drop."""

from typing import Any

import numpy as np


def masked_to_nan(values: Any) -> Any:
    """Returns values in which NaN replaces the masked elements.

    Args:
        values: array, or list of arrays and lists.
    """
    if isinstance(values, (list, tuple)):
        items: list[Any] = [*values]
        return [masked_to_nan(each) for each in items]
    if not has_masked(values) or values.dtype.kind not in "biuf":
        return values
    wide = values.dtype if values.dtype.kind == "f" else np.dtype("float64")
    return np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values).astype(wide))


def has_masked(values: object) -> bool:
    """Returns whether an array, or an array in a list, has masked elements."""
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(values).any())
    if isinstance(values, (list, tuple)):
        items: list[object] = [*values]
        return any(has_masked(each) for each in items)
    return False
