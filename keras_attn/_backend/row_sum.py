"""Sum over all axes except the last."""

from typing import Any

from keras_attn._types import Tensor


def sum_over_rows(tensor: Tensor) -> Any:
    """Sums over all axes except the last, `(..., D)` to `(D,)`, on TensorFlow.

    Speed: as the gradient of a bias, TensorFlow computes it several times faster than a plain sum.
    """
    import tensorflow as tf

    return tf.raw_ops.BiasAddGrad(out_backprop=tensor)
