"""Adds values to a tensor at given indices."""

import keras
from keras import ops

from keras_attn._backend.litert_tracing import is_traced_for_litert
from keras_attn._types import Tensor


def scatter_add(tensor: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Adds values to a tensor at given indices. Values at repeated indices are summed.

    Args:
        tensor: Tensor of any shape.
        places: Int32 tensor of shape `(N, rank)`, indices.
        values: Tensor of shape `(N,)`, with the dtype of `tensor`.

    Returns:
        Tensor with the same shape as `tensor`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if is_traced_for_litert():
            # The converter replaces `tf.tensor_scatter_nd_add` by products with `tensor`, which
            # round its values and make infinite values NaN.
            return tensor + tf.scatter_nd(places, values, tf.shape(tensor))
        # For repeated indices, an `ops.scatter` that is converted to ONNX keeps only one of the
        # values.
        return tf.tensor_scatter_nd_add(tensor, places, values)
    return tensor + ops.scatter(places, values, ops.shape(tensor))
