import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.weight_files import WeightFiles

_SHOWN = 8
"""Maximum number of names in a message."""


class WeightCopy:
    """Copies the weights of a checkpoint to the variables of a model, and checks that all are used.

    Args:
        files: `WeightFiles`.
    """

    def __init__(self, files: WeightFiles) -> None:
        self._files = files
        self._used: set[str] = set()
        self._assigned: set[int] = set()
        self._missing: list[str] = []
        self._wrong: list[str] = []

    def __contains__(self, name: str) -> bool:
        return name in self._files.shapes

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a weight, or `None` if the checkpoint has no such weight."""
        return self._files.shapes.get(name)

    def read(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """Returns a weight, or zeros if it is missing or has the wrong shape.

        `finish` reports the error, so that one message names all wrong weights.

        Args:
            name: String, name in the checkpoint.
            shape: Expected shape in the checkpoint.
        """
        shape = tuple(shape)
        found = self._files.shapes.get(name)
        if found is None:
            self._missing.append(name)
        else:
            self._used.add(name)
            if found == shape:
                return self._files.read(name)
            self._wrong.append(f"{name} of shape {found} instead of {shape}")
        return np.zeros(shape, "float32")

    def assign(self, variable: Any, value: np.ndarray) -> None:
        """Assigns an array of the shape of a variable."""
        variable.assign(value)
        self._assigned.add(id(variable))

    def copy(self, variable: Any, name: str, transpose: bool = False) -> None:
        """Copies a weight to a variable."""
        shape = tuple(variable.shape)
        value = self.read(name, shape[::-1] if transpose else shape)
        self.assign(variable, value.T if transpose else value)

    def joined(self, kernel: Any, names: Sequence[str]) -> None:
        """Copies the weights of several PyTorch `Linear` to one kernel, side by side."""
        inputs, outputs = kernel.shape
        shape = (outputs // len(names), inputs)
        self.assign(kernel, np.concatenate([self.read(name, shape).T for name in names], axis=1))

    def joined_biases(self, bias: Any, names: Sequence[str]) -> None:
        """Copies several biases to one, side by side. Missing biases become 0."""
        shape = (bias.shape[0] // len(names),)
        zeros = np.zeros(shape, "float32")
        parts = [self.read(name, shape) if name in self else zeros for name in names]
        self.assign(bias, np.concatenate(parts))

    def dense(self, layer: Any, name: str) -> None:
        """Copies kernel and bias of a PyTorch `Linear` to a `Dense` layer."""
        self.copy(layer.kernel, f"{name}.weight", transpose=True)
        if layer.bias is not None:
            self.copy(layer.bias, f"{name}.bias")

    def norm(self, layer: Any, name: str, added: float = 0.0) -> None:
        """Copies a layer normalization, or an RMS normalization.

        Args:
            layer: Normalization layer.
            name: String, name of the normalization in the checkpoint.
            added: Float, number that is added to the scale. Defaults to `0.0`.
        """
        scale = layer.gamma if hasattr(layer, "gamma") else layer.scale
        # Checkpoints that were written with TensorFlow, such as BERT, have Keras' names.
        names = ("gamma", "beta") if f"{name}.gamma" in self else ("weight", "bias")
        value = self.read(f"{name}.{names[0]}", tuple(scale.shape))
        self.assign(scale, value + np.float32(added))
        if getattr(layer, "beta", None) is not None:
            self.copy(layer.beta, f"{name}.{names[1]}")

    def attention(
        self,
        layer: Any,
        name: str,
        parts: Sequence[str] = ("q_proj", "k_proj", "v_proj", "out_proj"),
        query_scale: float = 1.0,
        optional_bias: bool = False,
    ) -> None:
        """Copies the four projections of an attention.

        Args:
            layer: `MultiHeadAttention`.
            name: String, name of the attention in the checkpoint.
            parts: Names of the projections of query, key, value and output.
            query_scale: Float, factor of the query projection.
            optional_bias: Bool, whether missing biases are 0. Defaults to `False`: they are errors.
        """
        for own, part in zip(("query", "key", "value", "output"), parts, strict=True):
            scale = query_scale if own == "query" else 1.0
            kernel = getattr(layer, f"{own}_kernel")
            value = self.read(f"{name}.{part}.weight", tuple(kernel.shape)[::-1])
            self.assign(kernel, value.T * np.float32(scale))
            if layer.use_bias:
                bias = getattr(layer, f"{own}_bias")
                self.bias(bias, f"{name}.{part}.bias", scale, optional_bias)

    def bias(self, variable: Any, name: str, scale: float = 1.0, optional: bool = False) -> None:
        """Copies a bias.

        Args:
            variable: Variable.
            name: String, name in the checkpoint.
            scale: Float, factor of the bias. Defaults to `1.0`.
            optional: Bool, whether a missing bias is 0. Defaults to `False`: it is an error.
        """
        shape = tuple(variable.shape)
        missing = optional and name not in self
        value = np.zeros(shape, "float32") if missing else self.read(name, shape)
        self.assign(variable, value * np.float32(scale))

    def check_tied(self, name: str, source: str) -> None:
        """Checks that a weight equals the weight that replaces it, if the checkpoint has both."""
        shape = self._files.shapes.get(name)
        if shape is None:
            return
        self._used.add(name)
        if not self.are_equal(name, source):
            self._wrong.append(f"{name}, which differs from {source} although both are tied")

    def check_constant(self, name: str, value: np.ndarray, first_row: int = 0) -> None:
        """Checks that a weight of the checkpoint has the values that the model computes.

        Args:
            name: String, name in the checkpoint.
            value: Array of shape `(rows, features)`.
            first_row: Int, index of the first row of the checkpoint to compare. Defaults to `0`.
        """
        self._used.add(name)
        shape = self._files.shapes[name]
        if (shape[0] - first_row, *shape[1:]) != value.shape:
            self._wrong.append(f"{name} of shape {shape}, which the model computes")
        elif not np.allclose(self._files.read(name)[first_row:], value, atol=2e-3):
            self._wrong.append(f"{name}, which has other values than the model computes")

    def are_equal(self, name: str, other: str) -> bool:
        """Returns whether the checkpoint has two weights of the same values."""
        shapes = self._files.shapes
        if name not in shapes or shapes.get(other) != shapes[name]:
            return False
        return np.array_equal(self._files.read(name), self._files.read(other))

    def ignore(self, pattern: str) -> None:
        """Accepts weights that the model does not need.

        Args:
            pattern: Regular expression that matches the whole name.
        """
        self._used.update(name for name in self._files.shapes if re.fullmatch(pattern, name))

    def finish(self, variables: Iterable[Any]) -> None:
        """Checks that all weights of the checkpoint were used and all variables were assigned.

        Args:
            variables: Variables of the model.

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
                f"{'; '.join(problems)}. Check that config.json belongs to these weights."
            )
        left = [each.path for each in variables if id(each) not in self._assigned]
        if left:
            raise RuntimeError(f"Expected a weight for each variable. Received: none for {left}.")
