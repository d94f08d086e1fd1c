from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attn._drop_ins.low_rank_adaptation import LowRankAdaptation
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._weight_mapping import WeightMapping

_SHOWN = 8
"""Maximum number of names shown in a message."""


class WeightWriter(WeightMapping):
    """Computes checkpoint weights from model variables.

    The weights get the names that transformers writes. Low-rank updates (LoRA) are merged.

    Args:
        layers: Model layers.
        is_output_tied: Bool, whether the output layer uses an embedding.
        absent: Prefixes of weight names that the checkpoint does not contain. Defaults to `()`.

    Attributes:
        weights: Dict from names to float32 arrays.
    """

    def __init__(
        self, layers: Iterable[Any], is_output_tied: bool, absent: Sequence[str] = ()
    ) -> None:
        self.weights: dict[str, np.ndarray] = {}
        self._is_output_tied = is_output_tied
        self._absent = tuple(absent)
        self._adapted = _adapted_kernels(layers)
        self._written: dict[int, Any] = {}
        self._variables: dict[str, Any] = {}
        self._problems: list[str] = []

    def __contains__(self, name: str) -> bool:
        return not name.startswith(self._absent)

    def are_equal(self, name: str, other: str) -> bool:
        return self._is_output_tied

    def value(self, variable: Any) -> np.ndarray:
        """Returns a variable's value as float32, with its low-rank update if it has one."""
        layer, name = self._adapted.get(id(variable), (None, None))
        value = variable if layer is None else layer.adapted_kernel(name, variable)
        return np.asarray(ops.convert_to_numpy(value), "float32")

    def copy(
        self,
        variable: Any,
        name: str,
        transpose: bool = False,
        scale: float = 1.0,
        added: float = 0.0,
        shape: Sequence[int] | None = None,
    ) -> None:
        value = self.value(variable)
        if (scale, added) != (1.0, 0.0):
            value = (value - np.float32(added)) / np.float32(scale)
        if transpose:
            value = value.T
        self._write(name, value if shape is None else value.reshape(shape), [variable])

    def joined(self, variable: Any, names: Sequence[str]) -> None:
        parts = np.split(self.value(variable), len(names), axis=-1)
        for name, part in zip(names, parts, strict=True):
            self._write(name, part.T, [variable])

    def split(self, variables: Sequence[Any], name: str, scales: Sequence[float]) -> None:
        parts = [
            self.value(variable) / np.float32(scale)
            for variable, scale in zip(variables, scales, strict=True)
        ]
        self._write(name, np.concatenate(parts, axis=-1), variables)

    def zero(self, variable: Any, name: str) -> None:
        self._written[id(variable)] = variable
        if np.any(self.value(variable)):
            self._problems.append(
                f"{variable.path} is not 0, and the architecture has no weight for it. Keep it 0: "
                "fine-tune with LoRA, or set variable.trainable = False"
            )

    def replace(self, variable: Any, indices: Sequence[int], value: float) -> None:
        pass  # the variable already contains the constant

    def check_tied(self, name: str, source: str) -> None:
        pass  # transformers does not write a tied weight a second time

    def duplicate(self, variable: Any, name: str) -> None:
        self._write(name, self.value(variable), [variable])

    def check_constant(
        self, name: str, compute: Callable[[int], np.ndarray], num_rows: int, first_row: int = 0
    ) -> None:
        if num_rows:
            used = compute(num_rows - first_row)
            rows = np.zeros((first_row, *used.shape[1:]), "float32")  # never read
            self._write(name, np.concatenate([rows, used]), [])

    def ignore(self, pattern: str) -> None:
        pass

    def merged(self, variables: Iterable[Any]) -> list[Any]:
        """Returns the variables except low-rank updates, which `value` adds to the kernels."""
        updates = {
            id(getattr(layer, f"lora_{name}_{part}"))
            for layer, name in self._adapted.values()
            for part in "ab"
        }
        return [variable for variable in variables if id(variable) not in updates]

    def finish(self, variables: Iterable[Any]) -> None:
        """Checks that all variables were written.

        Args:
            variables: Model variables, without low-rank updates.

        Raises:
            ConversionError: If a variable has no weight in the checkpoint.
        """
        left = [variable.path for variable in variables if id(variable) not in self._written]
        problems = self._problems + [f"{path}, for which it has no weight" for path in left]
        if problems:
            rest = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
            raise ConversionError(
                "Expected variables that the architecture of transformers has. Received: "
                f"{'; '.join(problems[:_SHOWN])}{rest}."
            )

    def _write(self, name, value, variables):
        previous = self._variables.get(name, variables)
        if list(map(id, previous)) != list(map(id, variables)):
            paths = " and ".join(variable.path for variable in (*previous, *variables))
            self._problems.append(f"{paths}, for which it has the single weight {name}")
        self._written |= {id(variable): variable for variable in variables}
        self._variables[name] = variables
        self.weights[name] = np.ascontiguousarray(value)


def _adapted_kernels(layers):
    """Returns a dict from the `id()` of each LoRA kernel to its layer and name."""
    kernels = {}
    for layer in flatten_layers(list(layers)):
        if isinstance(layer, LowRankAdaptation):
            targets = layer.lora_targets() if layer.lora_kernels else {}
            for name in layer.lora_kernels:
                kernels[id(targets[name][1])] = (layer, name)
    return kernels
