import math
import numbers
from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether a value is a real number of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Returns whether a value is an integer of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Returns whether a value is a finite number."""
    return is_number(value) and math.isfinite(value)
