"""Makes compiled functions in Keras models follow changes to their layers.

`predict`, `evaluate` and `fit` trace or compile a function at the first call and keep it. Python
values that a layer reads while it is traced, such as `layer.lora_rank`, `decoder.cache_block_size`
or `search.beam_width`, become constants in this function. If such a value or a weight in the layer
is replaced later, the function still computes the old result.

Keras expects users to call `compile` after a change. This is not enough here: the changed layer can
be part of several models, and inference models are not compiled. Therefore this module wraps
`keras.Model.make_train_function`, `make_test_function` and `make_predict_function` when the package
is imported. Each call compares the settings of all layers with the settings at the time when the
function was created, and creates a new function if they differ. Models without layers from this
package are not affected, and neither are a user's own `tf.function` and `jax.jit`.
"""

import functools
import weakref
from typing import Any

import keras

from keras_attn._backend.private_names import trained_variables
from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer

FUNCTIONS = ("train_function", "test_function", "predict_function")
"""Attributes in which a Keras model keeps its compiled functions."""

_settings: weakref.WeakKeyDictionary[keras.Model, dict[str, Any]] = weakref.WeakKeyDictionary()
"""Layer settings at the time when each function in a model was created."""


def retrace_after_changes() -> None:
    """Wraps methods of `keras.Model`. Repeated calls have no effect.

    These methods do not exist on the NumPy backend, which compiles nothing.
    """
    for name in FUNCTIONS:
        method = f"make_{name}"
        original = getattr(keras.Model, method, None)
        if original is not None and not hasattr(original, "_keras_attn"):
            setattr(keras.Model, method, _with_comparison(original, name))


def _with_comparison(original, name):
    @functools.wraps(original)
    def make_function(self, force=False):
        current = layer_settings(self)
        if current is not None:
            settings = _settings.setdefault(self, {})
            is_changed = name in settings and settings[name] != current
            force = force or (is_changed and getattr(self, name, None) is not None)
            settings[name] = current
            if name == "train_function":
                _require_same_trainable_weights(self)
        return original(self, force=force)

    setattr(make_function, "_keras_attn", True)  # noqa: B010
    return make_function


def _require_same_trainable_weights(model):
    """Raises a `ValueError` if Keras on JAX cannot train the weights that are trainable now.

    Keras itself finds this out while it traces the first step. By then, it has taken all weights
    out of the model, and they are lost.
    """
    optimizer = getattr(model, "optimizer", None)
    if keras.backend.backend() != "jax" or optimizer is None or not optimizer.built:
        return
    trained = trained_variables(optimizer)
    current = model.trainable_variables
    if [id(variable) for variable in trained] != [id(variable) for variable in current]:
        raise ValueError(
            f"Expected the weights that the optimizer was built for. Received: a model with "
            f"{len(current)} trainable weights and an optimizer of {len(trained)}, because layers "
            "were frozen, unfrozen or changed. Call `model.compile(...)` with a new optimizer "
            "before the training."
        )


def layer_settings(model: keras.Model) -> Any:
    """Returns everything in a model's layers that becomes a constant in a compiled function.

    These are the attributes of each layer: numbers, strings, functions, sublayers, weights, and
    whether they are trainable. Weight values are inputs to a compiled function.

    Args:
        model: Keras model.

    Returns:
        List that can be compared with a list that an earlier call returned, or `None` if the model
        has no layer from this package. It keeps no layer and no weight alive.
    """
    layers = flatten_layers([model])
    if not any(isinstance(layer, Layer) for layer in layers):
        return None
    return [(_Identity(layer), layer.trainable, _attributes(layer)) for layer in layers]


def _attributes(layer):
    """Returns one layer's settings: its public attributes and its weights."""
    is_model = isinstance(layer, keras.Model)  # its attributes, such as stop_training, are progress
    attributes = {"dtype": layer.dtype_policy.name}
    for name, value in vars(layer).items():
        if isinstance(value, keras.Variable):
            attributes[name] = (_Identity(value), value.trainable)
        elif not (is_model or name.startswith("_") or name == "built"):
            attributes[name] = _comparable(value)
    return attributes


def _comparable(value):
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, float):
        return repr(value)  # nan is not equal to itself
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    return _Identity(value)


class _Identity:
    """Reference to an object that is equal to a reference to the same object.

    An object's address is not enough, because a new object can get the address of a freed one.

    Args:
        value: Any object.
    """

    def __init__(self, value: Any) -> None:
        try:
            self._get: Any = weakref.ref(value)
        except TypeError:  # this class has no weak references
            self._get = lambda: value

    def __eq__(self, other: object) -> bool:
        value = self._get()
        return value is not None and isinstance(other, _Identity) and value is other._get()

    __hash__ = None  # pyright: ignore[reportAssignmentType]
