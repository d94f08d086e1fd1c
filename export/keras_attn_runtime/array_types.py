"""Types of arrays."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
"""An array whose dtype the exported file defines."""

Arrays: TypeAlias = dict[str, Array]
"""Arrays by the names of inputs or outputs."""

Integers: TypeAlias = npt.NDArray[np.int32]
Floats: TypeAlias = npt.NDArray[np.float32]

Ids: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Token ids of one sentence, as a caller may give them."""


def is_scalar_array(value: object) -> bool:
    """Returns whether a value is an array of rank 0, which has `__iter__` but no items."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def is_in_memory(values: object) -> bool:
    """Returns whether values are a list, tuple or array, whose iteration cannot block."""
    return isinstance(values, (list, tuple, np.ndarray))
