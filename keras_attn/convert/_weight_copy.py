import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._weight_mapping import WeightMapping
from keras_attn_checks.progress import report_count

_SHOWN = 8
"""Maximum number of names shown in a message."""


class WeightSource(Protocol):
    """Interface for reading checkpoint weights by name. `WeightFiles` implements it."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]: ...

    def read(self, name: str) -> np.ndarray: ...


class WeightCopy(WeightMapping):
    """Copies checkpoint weights to model variables, and checks that all weights are used.

    Args:
        files: `WeightSource`, such as `WeightFiles`.
        description: String, the file that describes the weights, for messages. Defaults to
            `"config.json"`.
    """

    def __init__(self, files: WeightSource, description: str = "config.json") -> None:
        self._files = files
        self._description = description
        self._used: set[str] = set()
        self._assigned: set[int] = set()
        self._missing: list[str] = []
        self._wrong: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._files.shapes

    @property
    def names(self) -> list[str]:
        """Weight names in the checkpoint."""
        return list(self._files.shapes)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns a weight's shape, or `None` if the checkpoint contains no such weight."""
        return self._files.shapes.get(name)

    def read(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """Returns a weight, or zeros if it is missing or has the wrong shape.

        `finish` reports the error, so that one message names all wrong weights.

        Args:
            name: String, name in the checkpoint.
            shape: Expected shape in the checkpoint.
        """
        shape = tuple(shape)
        stored_shape = self._files.shapes.get(name)
        if stored_shape is None:
            self._missing.append(name)
        else:
            self._used.add(name)
            report_count(len(self._used), len(self._files.shapes))
            if stored_shape == shape:
                return self._files.read(name)
            self._wrong.append(f"{name} of shape {stored_shape} instead of {shape}")
        return np.zeros(shape, "float32")

    def assign(self, variable: Any, value: np.ndarray) -> None:
        """Assigns an array to a variable with the same shape."""
        variable.assign(value)
        self._assigned.add(id(variable))

    def copy(
        self,
        variable: Any,
        name: str,
        transpose: bool = False,
        scale: float = 1.0,
        added: float = 0.0,
        shape: Sequence[int] | None = None,
    ) -> None:
        variable_shape = tuple(variable.shape)
        if shape is None:
            shape = variable_shape[::-1] if transpose else variable_shape
        value = self.read(name, shape)
        value = value.T if transpose else value.reshape(variable_shape)
        if (scale, added) != (1.0, 0.0):
            value = value * np.float32(scale) + np.float32(added)
        self.assign(variable, value)

    def joined(self, variable: Any, names: Sequence[str]) -> None:
        *inputs, outputs = variable.shape
        shape = (outputs // len(names), *inputs)
        parts = [self.read(name, shape).T for name in names]
        self.assign(variable, np.concatenate(parts, axis=-1))

    def split(self, variables: Sequence[Any], name: str, scales: Sequence[float]) -> None:
        *inputs, outputs = variables[0].shape
        value = self.read(name, (*inputs, outputs * len(variables)))
        parts = np.split(value, len(variables), axis=-1)
        for variable, part, scale in zip(variables, parts, scales, strict=True):
            self.assign(variable, part * np.float32(scale))

    def zero(self, variable: Any, name: str) -> None:
        self.assign(variable, np.zeros(tuple(variable.shape), "float32"))

    def replace(self, variable: Any, indices: Sequence[int], value: float) -> None:
        if indices:
            values = np.array(variable)
            values[list(indices)] = value
            self.assign(variable, values)

    def norm_names(self, name: str) -> tuple[str, str]:
        # Checkpoints written with TensorFlow, such as BERT, use Keras' names.
        if f"{name}.gamma" in self:
            return f"{name}.gamma", f"{name}.beta"
        return super().norm_names(name)

    def check_tied(self, name: str, source: str) -> None:
        shape = self._files.shapes.get(name)
        if shape is None:
            return
        self._used.add(name)
        if not self.are_equal(name, source):
            self._wrong.append(f"{name}, which differs from {source} although the two are tied")

    def duplicate(self, variable: Any, name: str) -> None:
        self._used.add(name)

    def check_constant(
        self, name: str, compute: Callable[[int], np.ndarray], num_rows: int, first_row: int = 0
    ) -> None:
        shape = self._files.shapes.get(name)
        if shape is None:
            return
        self._used.add(name)
        expected = compute(max(0, shape[0] - first_row))
        stored = self._files.read(name)[first_row:]
        if stored.shape != expected.shape:
            self._wrong.append(f"{name} of shape {shape}, which the model computes")
        elif not np.allclose(stored, expected, atol=2e-3):
            self._wrong.append(f"{name}, which has different values than the model computes")

    def are_equal(self, name: str, other: str) -> bool:
        shapes = self._files.shapes
        if name not in shapes or shapes.get(other) != shapes[name]:
            return False
        return np.array_equal(self._files.read(name), self._files.read(other))

    def ignore(self, pattern: str) -> None:
        self._used.update(name for name in self._files.shapes if re.fullmatch(pattern, name))

    def finish(self, variables: Iterable[Any]) -> None:
        """Checks that all checkpoint weights were used and all variables were assigned.

        Args:
            variables: Model variables.

        Raises:
            ConversionError: If weights are missing, have the wrong shape or value, or are unused.
        """
        unused = sorted(set(self._files.shapes) - self._used)
        problems = [
            f"{kind}: {', '.join(names[:_SHOWN])}"
            + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
            for kind, names in (
                ("missing", self._missing),
                ("wrong", self._wrong),
                ("unused", unused),
            )
            if names
        ]
        if problems:
            raise ConversionError(
                "Expected the weights that the settings describe. Received: weights that are "
                f"{'; '.join(problems)}. Check that {self._description} belongs to these weights."
            )
        left = [variable.path for variable in variables if id(variable) not in self._assigned]
        if left:
            raise RuntimeError(f"Expected a weight for each variable. Received: none for {left}.")
