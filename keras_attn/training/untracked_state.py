"""State of a training that Keras does not track: variables and attributes of users' objects."""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

import keras

from keras_attn._backend.private_names import compiled_metrics
from keras_attn._backend.torch_buffers import torch_buffers
from keras_attn._layer.flatten_layers import flatten_layers

_LIBRARIES = {"keras", "keras_attn", "tensorflow", "jax", "jaxlib", "torch", "numpy", "ml_dtypes"}


def untracked_variables(model: keras.Model) -> list[Any]:
    """Returns the variables that a training step may change and that Keras does not know.

    These are attributes of layers and losses, such as the states of recurrent layers with
    `stateful=True` or a `tf.Variable`, variables that a loss function reads from its module or an
    enclosing function, and buffers of PyTorch modules. JAX cannot change them in a compiled step.

    Args:
        model: Compiled `keras.Model`.

    Returns:
        List of `keras.Variable`, `tf.Variable` or `TorchBuffer`, in a fixed order.
    """
    if keras.backend.backend() == "jax":
        return []
    kinds = _kinds_of_variables()
    tracked = {id(variable) for variable in (*model.variables, *model.metrics_variables)}
    variables = {id(value): value for value in _values(model) if isinstance(value, kinds)}
    untracked = [variable for key, variable in variables.items() if key not in tracked]
    return [*untracked, *torch_buffers(flatten_layers([model]))]


class TrainedLayers:
    """Notices that a callback compiles a model, or freezes or unfreezes its layers.

    Args:
        model: Compiled `keras.Model`, when the training begins.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._optimizer = model.optimizer
        self._flags = self._trainable()

    def changes(self) -> list[str]:
        """Returns the names of what has changed, such as `"dense.trainable"`."""
        flags = self._trainable()
        changed = [f"{name}.trainable" for name in flags if flags[name] != self._flags.get(name)]
        return changed if self._model.optimizer is self._optimizer else ["optimizer", *changed]

    def _trainable(self) -> dict[str, bool]:
        return {layer.name: layer.trainable for layer in flatten_layers([self._model])}


def objects_of_user(model: keras.Model) -> list[object]:
    """Returns the model, layers, metrics and losses whose classes are not of a library."""
    metrics = [*model.metrics, *compiled_metrics(model)]
    objects = {id(item): item for item in (*flatten_layers([model]), *metrics, *_losses(model))}
    return [
        item
        for item in objects.values()
        if hasattr(item, "__dict__") and not is_of_library(type(item))
    ]


def is_of_library(value: object) -> bool:
    """Returns whether a function or class belongs to a library that Keras uses, or to Python."""
    root = (getattr(value, "__module__", None) or "builtins").partition(".")[0]
    return root in _LIBRARIES or (root in sys.stdlib_module_names and root != "__main__")


def _values(model: keras.Model) -> Iterator[object]:
    for owner in [*flatten_layers([model]), *_losses(model)]:
        attributes = vars(owner).values() if hasattr(owner, "__dict__") else ()
        if inspect.isfunction(owner):
            used = inspect.getclosurevars(owner)
            attributes = [*used.nonlocals.values(), *used.globals.values()]
        for value in attributes:
            yield from value if isinstance(value, (list, tuple)) else (value,)


def _losses(model: keras.Model) -> list[object]:
    return [loss for loss in keras.tree.flatten(model.loss) if loss is not None]


def _kinds_of_variables() -> tuple[type, ...]:
    if keras.backend.backend() != "tensorflow":
        return (keras.Variable,)
    import tensorflow as tf

    return keras.Variable, tf.Variable
