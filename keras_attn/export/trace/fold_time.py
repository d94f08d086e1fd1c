"""TimeDistributed without a loop."""

import functools
import inspect
from typing import Any

import keras
from keras import ops

from keras_attn._layer.flatten_layers import flatten_layers


def fold_time(*layers: Any) -> None:
    """Makes `TimeDistributed` layers call their layer once, for the steps of all rows.

    If the number of steps is unknown, Keras 3.15 and earlier trace `vectorized_map` over as many
    steps as there are rows (they read the size before they transpose), which gives wrong results
    in every graph, and operators that tf2onnx cannot convert. If it is known, they trace the layer
    once for each step. A layer that treats all rows alike gives the same for rows `batch * steps`.

    Args:
        *layers: copies of Keras layers or models; all layers inside of them are changed.
    """
    own = keras.layers.TimeDistributed.call
    for layer in flatten_layers(layers):
        if getattr(type(layer), "call", None) is own:
            layer.call = functools.partial(_call, layer)


def _call(layer, inputs, training=None, mask=None):
    """Stands in for `keras.layers.TimeDistributed.call`."""
    inner, arguments = layer.layer, {}
    names = inspect.signature(inner.call).parameters
    if mask is not None and "mask" in names:
        arguments["mask"] = _folded(mask)
    if "training" in names:
        arguments["training"] = training
    outputs = inner.call(_folded(inputs), **arguments)  # (B * T, ...)
    return ops.reshape(outputs, (*ops.shape(inputs)[:2], *ops.shape(outputs)[1:]))


def _folded(value):
    """`(batch, steps, ...)` to `(batch * steps, ...)`."""
    batch, steps, *others = ops.shape(value)
    return ops.reshape(value, (batch * steps, *others))
