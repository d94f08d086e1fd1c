"""Functions that keep the precision of float64 on JAX.

On JAX, `ops.tanh`, `ops.sin`, `ops.cos` and `ops.mean` round float64 to float32, as do
`keras.activations.tanh` and some other `keras.ops` that this library does not use. Keras' recurrent
cells use `keras.activations.tanh`, so their states have float32 precision.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor


def tanh(x: Tensor) -> Any:
    """Returns `ops.tanh(x)` in the dtype of `x`."""
    return _compute("tanh", x)


def sin(x: Tensor) -> Any:
    """Returns `ops.sin(x)` in the dtype of `x`."""
    return _compute("sin", x)


def cos(x: Tensor) -> Any:
    """Returns `ops.cos(x)` in the dtype of `x`."""
    return _compute("cos", x)


def activate(activation: Callable[[Any], Any], x: Tensor) -> Any:
    """Applies an activation function, such as `keras.activations.tanh`."""
    return tanh(x) if activation is keras.activations.tanh else activation(x)


def mean(x: Tensor, axis: int, keepdims: bool = False) -> Any:
    """Returns `ops.mean(x, axis, keepdims)`."""
    return _compute("mean", x, axis=axis, keepdims=keepdims)


def _compute(name, x, **arguments):
    is_float64 = keras.backend.standardize_dtype(x.dtype) == "float64"
    if not is_float64 or keras.backend.backend() != "jax" or isinstance(x, keras.KerasTensor):
        return getattr(ops, name)(x, **arguments)
    import jax.numpy as jnp

    return getattr(jnp, name)(x, **arguments)
