"""Traces `TimeDistributed` without a loop."""

import functools
import inspect

import keras
from keras import ops

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._types import Tensor


def fold_time(*layers: keras.layers.Layer) -> None:
    """Makes `TimeDistributed` layers call their inner layer once, with `batch * steps` rows.

    The results do not change if the inner layer processes all rows independently.

    The change corrects an error: if the number of steps is unknown, `TimeDistributed` of Keras 3.15
    and earlier uses the batch size as the number of steps, because it reads the size before it
    transposes the input. The traced graph then returns wrong values, and has operators that tf2onnx
    cannot convert. The change also makes graphs smaller: if the number of steps is known, Keras
    would trace the inner layer once for each step.

    Args:
        *layers: Copies of Keras layers or models; all nested layers are changed.
    """
    keras_call = keras.layers.TimeDistributed.call
    for layer in flatten_layers(layers):
        if getattr(type(layer), "call", None) is keras_call:
            layer.call = functools.partial(_call, layer)


def _call(
    layer: keras.layers.TimeDistributed,
    inputs: Tensor,
    training: bool | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Replaces `keras.layers.TimeDistributed.call`."""
    inner, arguments = layer.layer, {}
    names = inspect.signature(inner.call).parameters
    if mask is not None and "mask" in names:
        arguments["mask"] = _folded(mask)
    if "training" in names:
        arguments["training"] = training
    outputs = inner.call(_folded(inputs), **arguments)  # (B * T, ...)
    return ops.reshape(outputs, (*ops.shape(inputs)[:2], *ops.shape(outputs)[1:]))


def _folded(value: Tensor) -> Tensor:
    """Reshapes `(batch, steps, ...)` to `(batch * steps, ...)`."""
    batch, steps, *features = ops.shape(value)
    return ops.reshape(value, (batch * steps, *features))
