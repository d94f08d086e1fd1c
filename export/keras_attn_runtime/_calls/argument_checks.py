"""Checks of numbers and bools that a caller passes."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from keras_attn_runtime._array_types import LARGEST_INT32


def require_integer(name: str, value: object, least: int, most: int = LARGEST_INT32) -> int:
    """Returns a Python or NumPy integer as an int.

    Products of NumPy integers can overflow, and some functions do not accept them.

    Raises:
        ValueError: if `value` is not an integer in [least, most].
    """
    return int(_checked(name, value, Integral, "an integer", least, most))


def require_length(name: str, value: object) -> int:
    """Returns a number of tokens as an int. Whole floats, such as 1.5 * 20, are accepted.

    Raises:
        ValueError: if `value` is not a whole number in [0, 2**31 - 1].
    """
    plain: Any = value.item() if isinstance(value, np.generic) else value
    is_whole = _is_number(plain, Real) and math.isfinite(plain) and plain % 1 == 0
    return require_integer(name, int(plain) if is_whole else value, least=0)


def require_bool(name: str, value: object) -> bool:
    """Returns a Python or NumPy bool as a bool.

    Raises:
        ValueError: if `value` is neither True nor False.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"Expected {name} to be True or False. Received: {name}={value!r}.")
    return bool(value)


def require_number(
    name: str,
    value: object,
    expected: str = "a number",
    least: float = 0,
    most: float = LARGEST_INT32,
) -> float:
    """Returns a Python or NumPy number as a float.

    Raises:
        ValueError: if `value` is not a number in [least, most].
    """
    return float(_checked(name, value, Real, expected, least, most))


def _checked(
    name: str,
    value: object,
    kind: type[Integral] | type[Real],
    expected: str,
    least: float,
    most: float,
) -> Any:
    """Returns a Python number in [least, most]."""
    # NumPy would compare in the value's dtype, which may be unable to represent the limits.
    plain: Any = value.item() if isinstance(value, np.generic) else value
    if not _is_number(plain, kind) or not least <= plain <= most:  # nan is in no range
        raise ValueError(
            f"Expected {name} to be {expected} in [{least}, {most}]. Received: {name}={value!r}."
        )
    return plain


def _is_number(value: object, kind: type[Integral] | type[Real]) -> bool:
    return not isinstance(value, bool) and isinstance(value, kind)  # Python counts True as 1
