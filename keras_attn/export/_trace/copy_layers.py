"""Copies of layers that share their variables."""

import copy
import enum
import functools
import types
from typing import Any, TypeVar, TypeVarTuple

import keras

from keras_attn._backend.private_names import (
    NODE_LISTS,
    forget_original_parts,
    graph_record_classes,
)

FRAMEWORKS = frozenset({"keras", "tensorflow", "numpy", "onnx", "tf2onnx"})
"""Packages whose objects are shared by a copy and its original. Layers of these packages are
copied."""


Layers = TypeVarTuple("Layers")
Copied = TypeVar("Copied")


def copy_layers(*layers: *Layers) -> tuple[*Layers]:
    """Copies layers and all nested layers, but shares their variables.

    An export sets attributes of layers, such as `use_cudnn` and `dtype_policy`. It sets the
    attributes of copies, so the caller can use the model during the export. The Python objects are
    copied without `get_config`. Therefore the classes need not be registered, attributes that were
    set after the construction are copied too, and the copies need no memory for weights.

    The function copies layers, operations, and all objects that refer to them: containers, bound
    methods, partial functions, closures and defaults of functions, and objects of other classes.
    Everything else is shared: variables, tensors, arrays, seed generators, optimizers and metrics.

    Args:
        *layers: Keras layers or models. If two layers share a part, their copies share the copy of
            this part.

    Returns:
        Tuple of the copies.
    """
    copies = _Copies()
    return tuple(copies.of(layer) for layer in layers)


class _Copies:
    """Creates the copies of objects on demand, one for each object."""

    def __init__(self) -> None:
        # id -> (original, copy); keeping the original keeps its id unique
        self._pairs: dict[int, tuple[object, object]] = {}
        self._records = graph_record_classes()

    def of(self, value: Any) -> Any:
        """Returns the copy of an object, or the object itself if it is shared."""
        if id(value) in self._pairs:
            return self._pairs[id(value)][1]
        if isinstance(value, (keras.Operation, *self._records)):
            return self._object(value)
        if isinstance(value, (dict, list, set)):
            return self._container(value)
        if isinstance(value, (tuple, frozenset)):
            items = [self.of(item) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            base: Any = tuple if isinstance(value, tuple) else frozenset
            # TensorFlow wraps tuples in objects whose `__class__` is the class of the tuple.
            return base.__new__(value.__class__, items)
        if not self._leads_to_layer(value):
            return value
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self.of(value.__self__))
        if isinstance(value, functools.partial):
            keywords = self.of(value.keywords)
            return functools.partial(self.of(value.func), *map(self.of, value.args), **keywords)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        return self._other_object(value)

    def _add(self, value: object, new: Copied) -> Copied:
        self._pairs[id(value)] = value, new
        return new

    def _object(self, value: object) -> object:
        new = self._add(value, object.__new__(type(value)))
        for name, old in dict(vars(value)).items():
            # Nodes are not copied: they refer to all models that the layer is a part of.
            vars(new)[name] = list(old) if name in NODE_LISTS else self.of(old)
        forget_original_parts(new)
        return new

    def _other_object(self, value: object) -> object:
        try:
            new = copy.copy(value)
        except Exception:  # a class that does not support copies may raise any exception
            return value
        self._add(value, new)
        for name, old in dict(vars(value)).items():
            object.__setattr__(new, name, self.of(old))
        return new

    def _container(self, value: dict | list | set) -> dict | list | set:
        # A container of Keras notifies its layer of each change, so `copy.copy` cannot be used.
        new = value.__class__() if hasattr(value, "tracker") else copy.copy(value)
        self._add(value, new).clear()
        if isinstance(value, dict) and isinstance(new, dict):
            new.update({self.of(key): self.of(item) for key, item in dict(value).items()})
        elif isinstance(new, list):
            new.extend([self.of(item) for item in list(value)])
        elif isinstance(new, set):
            new.update([self.of(item) for item in list(value)])
        return new

    def _function(self, value: types.FunctionType) -> types.FunctionType:
        cells = [types.CellType() for _ in value.__closure__ or ()]
        new = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, None, tuple(cells) or None
        )
        self._add(value, functools.update_wrapper(new, value))
        new.__defaults__ = self.of(value.__defaults__)
        new.__kwdefaults__ = self.of(value.__kwdefaults__)
        vars(new).clear()
        vars(new).update(self.of(vars(value)))
        for cell, old in zip(cells, value.__closure__ or (), strict=True):
            for content in _contents(old):
                cell.cell_contents = self.of(content)
        return new

    def _leads_to_layer(self, value: object) -> bool:
        open_values, seen = [value], {}
        while open_values:
            open_value = open_values.pop()
            if isinstance(open_value, keras.Operation):
                return True
            if id(open_value) not in seen:
                seen[id(open_value)] = open_value
                open_values.extend(_parts(open_value))
        return False


def _parts(value: object) -> list[object]:
    """Returns the objects that `value` refers to and through which a layer may be reachable."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.FunctionType):
        contents = [content for cell in value.__closure__ or () for content in _contents(cell)]
        return [*contents, value.__defaults__, value.__kwdefaults__, vars(value)]
    if isinstance(value, (type, types.ModuleType, enum.Enum)) or not hasattr(value, "__dict__"):
        return []
    is_foreign = type(value).__module__.partition(".")[0] in FRAMEWORKS
    return [] if is_foreign else list(dict(vars(value)).values())


def _contents(cell: types.CellType) -> list[object]:
    """Returns a list with the content of a closure cell; an empty list for an empty cell."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []
