"""State of a training that Keras does not track: variables and attributes of users' objects."""

import contextlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

import keras

from keras_attn._backend.private_names import compiled_metrics
from keras_attn._backend.torch_buffers import torch_buffers
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.training._restored_state import saved_variables

_LIBRARIES = {"keras", "keras_attn", "tensorflow", "jax", "jaxlib", "torch", "numpy", "ml_dtypes"}


def untracked_variables(
    model: keras.Model, callbacks: Sequence[object] = ()
) -> list[keras.Variable]:
    """Returns the variables that a training may change and that Keras does not know.

    These are attributes of layers, losses and callbacks, such as the states of recurrent layers
    with `stateful=True`, a `tf.Variable` or a second model; what loss functions and methods read
    from their module or an enclosing function, such as a target network; and buffers of PyTorch
    modules. JAX cannot change the variables of layers and losses in a compiled step.

    Args:
        model: Compiled `keras.Model`.
        callbacks: List of callbacks. Those with `get_state` are left out. Defaults to `()`.

    Returns:
        List of `keras.Variable`, `tf.Variable` or `TorchBuffer`, in a fixed order.
    """
    owners: list[object] = [item for item in callbacks if not hasattr(item, "get_state")]
    if keras.backend.backend() != "jax":
        owners = [*flatten_layers([model]), *_losses(model), *owners]
    values = [value for owner in owners for value in _values(owner)]
    variables = {id(item): item for value in values for item in variables_of(value)}
    for variable in (*model.metrics_variables, *saved_variables(model)):
        variables.pop(id(variable), None)
    parts = [item for item in values if isinstance(item, keras.layers.Layer)]
    buffers = torch_buffers(flatten_layers([model, *parts]))
    return [*variables.values(), *cast("list[keras.Variable]", buffers)]


def variables_of(value: Any) -> list[keras.Variable]:
    """Returns the variables of a layer, optimizer, metric or generator, or of a list of these."""
    if isinstance(value, (list, tuple)):
        return [item for element in value for item in variables_of(element)]
    if isinstance(value, dict):
        return variables_of(list(value.values()))
    if isinstance(value, (keras.layers.Layer, keras.Optimizer, keras.Metric)):
        return list(value.variables)
    if isinstance(value, keras.random.SeedGenerator):
        return [value.state]
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if isinstance(value, tf.random.Generator):
            return [cast("keras.Variable", value.state)]
        if isinstance(value, tf.Variable):
            return [cast("keras.Variable", value)]
    return [value] if isinstance(value, keras.Variable) else []


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


def _values(owner: object) -> Iterator[object]:
    """Yields the attributes of an object, and what its function or methods read from outside."""
    functions = [owner] if inspect.isfunction(owner) else []
    if not functions and hasattr(owner, "__dict__"):
        yield from vars(owner).values()
        classes = [parent for parent in type(owner).__mro__ if not is_of_library(parent)]
        attributes = [value for parent in classes for value in vars(parent).values()]
        functions = [
            value for value in map(inspect.unwrap, attributes) if inspect.isfunction(value)
        ]
    for function in functions:
        with contextlib.suppress(ValueError):  # a variable of an enclosing function has no value
            used = inspect.getclosurevars(function)
            yield from (*used.nonlocals.values(), *used.globals.values())


def _losses(model: keras.Model) -> list[object]:
    return [loss for loss in keras.tree.flatten(model.loss) if loss is not None]
