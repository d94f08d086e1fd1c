"""Attributes of users' objects that change during training and are not part of a saved state."""

import random
import zlib
from collections.abc import Sequence
from inspect import isfunction, unwrap
from typing import Any

import keras
import numpy as np
from keras.callbacks import Callback

from keras_attn.training._untracked_state import variables_of


class UnsavedAttributes:
    """Finds attributes of users' objects that change during training and are not saved.

    Args:
        objects: List of callbacks, models, layers, metrics and losses.
        saved: List of variables that are saved. Defaults to `()`.
    """

    def __init__(self, objects: Sequence[object], saved: Sequence[object] = ()) -> None:
        self._objects = [item for item in objects if not hasattr(item, "get_state")]
        self._saved = {id(variable): variable for variable in saved}  # keeps the ids valid
        self._before = list(map(self._summaries, self._objects))

    def names(self) -> list[str]:
        """Returns the names of the changed attributes, such as `"MyCallback.counter"`."""
        names = []
        for user_object, before in zip(self._objects, self._before, strict=True):
            for name, summary in self._summaries(user_object).items():
                is_new_tensor = _is_torch(summary) and not _is_torch(before.get(name))
                # Tensors of the last call are no state: they do not exist before the first step.
                if summary != before.get(name) and not is_new_tensor:
                    names.append(f"{type(user_object).__name__}.{name}")
        return sorted(set(names))

    def _summaries(self, user_object: object) -> dict[str, object]:
        """Returns summaries of the attributes that Keras does not use."""
        libraries = ("keras.", "torch.")
        parents = [
            parent
            for parent in type(user_object).__mro__
            if parent.__module__.startswith(libraries)
        ]
        values = [value for parent in parents for value in vars(parent).values()]
        functions = [unwrap(value) for value in values if isfunction(value)]
        used = {name for function in functions for name in function.__code__.co_names}
        attributes = {name: value for name, value in vars(user_object).items() if name not in used}
        if not isinstance(user_object, Callback):
            # The other attributes of layers are no state.
            kinds = (bool, int, float, str, list, dict, set, *_KINDS_WITH_STATE)
            attributes = {
                name: value
                for name, value in attributes.items()
                if name[0] != "_" and (isinstance(value, kinds) or _is_torch(_torch_summary(value)))
            }
        return {name: self._summary(value) for name, value in attributes.items()}

    def _summary(self, value: Any) -> object:
        """Returns the value, the length, a checksum or the identity of an attribute."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.random.Generator):
            return str(value.bit_generator.state)
        if isinstance(value, np.random.RandomState):
            return str(value.get_state(legacy=False))
        if isinstance(value, random.Random):
            return hash(value.getstate())
        torch_summary = _torch_summary(value)
        if torch_summary is not None:
            return torch_summary
        variables = [item for item in variables_of(value) if id(item) not in self._saved]
        if variables:
            checksums = [
                zlib.crc32(keras.ops.convert_to_numpy(item).tobytes()) for item in variables
            ]
            return type(value).__name__, checksums
        if isinstance(value, (list, tuple, dict, set, bytearray)):
            return type(value).__name__, len(value)
        return type(value).__name__, id(value)


_KINDS_WITH_STATE = (np.random.Generator, np.random.RandomState, random.Random)


def _torch_summary(value: Any) -> tuple[str, object] | None:
    """Returns a checksum of an object of PyTorch with a state; `None` for other objects."""
    if not type(value).__module__.startswith("torch") or isinstance(value, keras.layers.Layer):
        return None
    import torch  # pyright: ignore[reportMissingImports]

    if isinstance(value, torch.Generator):
        value = value.get_state()
    elif hasattr(value, "state_dict") and not isinstance(value, torch.nn.Module):
        value = value.state_dict()  # an optimizer or a schedule of learning rates
    elif not torch.is_tensor(value) or isinstance(value, torch.nn.Parameter) or value.is_meta:
        return None
    leaves = keras.tree.flatten(value)
    return "torch", repr([_checksum(leaf) if torch.is_tensor(leaf) else leaf for leaf in leaves])


def _checksum(value: Any) -> int:
    return zlib.crc32(keras.ops.convert_to_numpy(value).tobytes())


def _is_torch(summary: object) -> bool:
    return isinstance(summary, tuple) and summary[0] == "torch"
