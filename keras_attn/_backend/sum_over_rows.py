"""Sum over all axes except the last."""

from typing import Any

from keras_attn._types import Tensor


def sum_over_rows(tensor: Tensor) -> Any:
    """Sums over all axes except the last axis, `(..., D)` to `(D,)`. Requires TensorFlow.

    Speed: `BiasAddGrad`, the operator for the gradient of a bias, is several times faster than a
        sum.
    """
    import tensorflow as tf

    return tf.raw_ops.BiasAddGrad(out_backprop=tensor)
