"""Array types, and masked arrays, whose mask `numpy.asarray` would drop."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any, SupportsInt, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array whose dtype the exported file defines."""

Arrays: TypeAlias = dict[str, Array]
"""Dict from input or output names to arrays."""

LARGEST_INT32 = 2**31 - 1

Integers: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]

Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Token ids of one sentence, in the types that public methods accept."""


def is_scalar_array(value: object) -> bool:
    """Returns whether a value is a rank-0 array, which defines `__iter__` but is not iterable."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def is_integer(value: object) -> TypeGuard[SupportsInt]:
    """Returns whether a value is an integer of Python or NumPy, but not a bool."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def is_in_memory(values: object) -> bool:
    """Returns whether values are a list, tuple or array; iterating over these cannot block."""
    return isinstance(values, (list, tuple, np.ndarray))


def masked_to_nan(values: Any) -> Any:
    """Returns values in which NaN replaces the masked elements.

    Args:
        values: array, or list of arrays and lists.
    """
    if isinstance(values, (list, tuple)):
        items: list[Any] = [*values]
        return [masked_to_nan(item) for item in items]
    if not has_masked(values) or values.dtype.kind not in "biuf":
        return values
    wide = values.dtype if values.dtype.kind == "f" else np.dtype("float64")
    return np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values).astype(wide))


def has_masked(values: object) -> bool:
    """Returns whether an array, or an array in a list, contains masked elements."""
    if isinstance(values, np.ma.MaskedArray):
        return bool(np.ma.getmaskarray(values).any())
    if isinstance(values, (list, tuple)):
        items: list[object] = [*values]
        return any(has_masked(item) for item in items)
    return False
