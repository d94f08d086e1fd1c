"""Types of arrays."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array whose dtype the exported file defines."""

Arrays: TypeAlias = dict[str, Array]
"""Dict from the name of an input or output to its array."""

LARGEST_INT32 = 2**31 - 1

Integers: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]

Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Token ids of one sentence, in the types that public methods accept."""


def is_scalar_array(value: object) -> bool:
    """Returns whether a value is an array of rank 0, which has `__iter__` but is not iterable."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def is_in_memory(values: object) -> bool:
    """Returns whether values are a list, tuple or array; iterating over these cannot block."""
    return isinstance(values, (list, tuple, np.ndarray))
