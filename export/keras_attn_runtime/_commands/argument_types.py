"""Command-line argument types: numbers within a range, KEY=VALUE, NAME=FILL and NAME=NUMBERS."""

import argparse
import contextlib
import math
from collections.abc import Callable
from typing import TypeVar

from keras_attn_runtime._array_types import LARGEST_INT32
from keras_attn_runtime._calls.search_settings import SETTINGS
from keras_attn_runtime._series.table import LARGEST, PREVIOUS

N = TypeVar("N", int, float)


def positive_integer(text: str) -> int:
    """Returns an integer in [1, 2**31 - 1]."""
    return _at_least(1, int(text))


def integer(text: str) -> int:
    """Returns an integer in [0, 2**31 - 1]."""
    return _at_least(0, int(text))


def number(text: str) -> float:
    """Returns a float in [0, 2**31 - 1]."""
    return _at_least(0.0, float(text))


def setting(name: str) -> Callable[[str], float]:
    """Returns a function that converts the text of a search setting to a checked number."""
    allowed = SETTINGS[name]

    def convert(text: str) -> float:
        value: object = text
        with contextlib.suppress(ValueError):
            value = float(text)
        with contextlib.suppress(ValueError):
            value = int(text) if allowed.is_integer else value
        try:
            return allowed.check(name, value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def key_and_value(text: str) -> tuple[str, str]:
    """Returns the two strings in KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(
            f"expected KEY=VALUE, such as device_id=1, received {text!r}"
        )
    return key, value


def rule_input(text: str) -> tuple[str, float | list[float]]:
    """Returns name and number in NAME=NUMBER, or name and vector in NAME=NUMBER,NUMBER,...

    A vector with one number ends with a comma.
    """
    name, _, value = text.partition("=")
    try:
        numbers = [float(part) for part in value.removesuffix(",").split(",")]
    except ValueError:
        numbers = []
    if not name or not numbers:
        raise argparse.ArgumentTypeError(
            f"expected NAME=NUMBER or NAME=NUMBER,NUMBER,..., such as most=2, received {text!r}"
        )
    return name, numbers if "," in value else numbers[0]


def column_fill(text: str) -> tuple[str, float | str]:
    """Returns column name and fill from NAME=NUMBER or NAME=previous."""
    name, _, value = text.rpartition("=")
    try:
        fill = PREVIOUS if value == PREVIOUS else float(value)
    except ValueError:
        fill = math.nan
    if not name or (isinstance(fill, float) and not abs(fill) <= LARGEST):  # also rejects nan
        raise argparse.ArgumentTypeError(
            f"expected NAME=NUMBER or NAME={PREVIOUS}, such as holiday=0, with a number of at most "
            f"{LARGEST:.4g} (float32), received {text!r}"
        )
    return name, fill


def _at_least(least: N, value: N) -> N:
    if not least <= value <= LARGEST_INT32:  # also rejects nan
        raise argparse.ArgumentTypeError(
            f"expected a number in [{least}, {LARGEST_INT32}], received {value}"
        )
    return value
