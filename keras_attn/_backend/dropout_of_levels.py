"""Dropout with random bytes on TensorFlow."""

from typing import Any

from keras_attn._types import Tensor


def dropout_of_levels(inputs: Tensor, rate: float, seed: Any, num_levels: int) -> Any:
    """Applies dropout: drops entries with a random level below a threshold.

    A level is one byte of a random int32, so one random integer is enough for four entries. The
    threshold is `rate * num_levels`, randomly rounded up or down for the whole tensor. The
    remaining entries are scaled according to the rounded threshold, so the expected value of the
    result is the input.

    Args:
        inputs: Float tensor of any shape.
        rate: Float, fraction of the entries to drop, at most `1 - 1 / num_levels`.
        seed: Int tensor of shape `(2,)`.
        num_levels: Int, number of levels. Must be 256.

    Returns:
        Tensor of the shape of `inputs`.
    """
    import tensorflow as tf

    size = tf.size(inputs, out_type=tf.int64)  # attention weights can have more than 2**31 entries
    seed = tf.cast(seed, "int32")
    integers = tf.random.stateless_uniform([(size + 3) // 4 + 1], seed, None, None, "int32")
    levels = tf.reshape(tf.bitcast(integers, "int8"), [-1])[:size]
    uniform = tf.cast(integers[-1], "float32") / 2**32 + 0.5  # this integer is not used for levels
    threshold = tf.minimum(tf.floor(rate * num_levels + uniform), num_levels - 1)
    least = tf.cast(threshold - num_levels // 2, "int8")
    is_kept = tf.reshape(levels, tf.shape(inputs)) >= least
    scale = tf.cast(num_levels / (num_levels - threshold), inputs.dtype)
    return inputs * (tf.cast(is_kept, inputs.dtype) * scale)
