"""Sums of values at places of a tensor."""

import keras
from keras import ops

from keras_attn._types import Tensor


def scatter_add(tensor: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Adds values at places, more than once where a place stands more than once.

    Args:
        tensor: of any shape.
        places: int32 `(N, rank of tensor)`.
        values: `(N,)`, of the dtype of `tensor`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # What `ops.scatter` is there loses all but one of them on the way to ONNX.
        return tf.tensor_scatter_nd_add(tensor, places, values)
    return tensor + ops.scatter(places, values, ops.shape(tensor))
