"""Dropout that draws small integers, on TensorFlow."""

from typing import Any

from keras_attn._types import Tensor


def dropout_of_levels(inputs: Tensor, rate: float, seed: Any, num_levels: int) -> Any:
    """Drops entries whose random level is below a threshold, and scales the others.

    A level is one byte of a random integer, so an entry costs a quarter of a random number. The
    threshold is `rate * num_levels`, rounded up or down at random for the whole tensor, and the
    scale is that of the rounded threshold, so the mean of the results is the input.

    Args:
        inputs: tensor of any shape, floating.
        rate: float, the share of entries to drop, at most `1 - 1 / num_levels`.
        seed: integers `(2,)`, of the one draw.
        num_levels: int, 256.
    """
    import tensorflow as tf

    size = tf.size(inputs, out_type=tf.int64)  # of attention weights there can be billions
    seed = tf.cast(seed, "int32")
    integers = tf.random.stateless_uniform([(size + 3) // 4 + 1], seed, None, None, "int32")
    levels = tf.reshape(tf.bitcast(integers, "int8"), [-1])[:size]
    uniform = tf.cast(integers[-1], "float32") / 2**32 + 0.5  # which no level comes from
    threshold = tf.minimum(tf.floor(rate * num_levels + uniform), num_levels - 1)
    least = tf.cast(threshold - num_levels // 2, "int8")
    is_kept = tf.reshape(levels, tf.shape(inputs)) >= least
    scale = tf.cast(num_levels / (num_levels - threshold), inputs.dtype)
    return inputs * (tf.cast(is_kept, inputs.dtype) * scale)
