from collections.abc import Callable
from typing import Any

import numpy as np

from keras_attn.convert._weight_copy import WeightCopy
from keras_attn.convert._weight_files import WeightFiles

TOLERANCE = 1e-6
"""Relative and absolute tolerance. Export and import scale some weights, which rounds them."""


class WeightComparison(WeightCopy):
    """Compares checkpoint weights with model variables.

    Args:
        files: `WeightFiles`.
        value: Function that returns a variable's value.

    Attributes:
        differing: List of paths, the variables that differ from the checkpoint.
    """

    def __init__(self, files: WeightFiles, value: Callable[[Any], np.ndarray]) -> None:
        super().__init__(files)
        self._value = value
        self.differing: list[str] = []

    def assign(self, variable: Any, value: np.ndarray) -> None:
        self._assigned.add(id(variable))
        expected = self._value(variable)
        if not np.allclose(value, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            self.differing.append(variable.path)

    def replace(self, variable: Any, indices: Any, value: float) -> None:
        pass  # the variable and the checkpoint already contain the constant
