"""Dropout with small random integers, on TensorFlow."""

from typing import Any

from keras_attn._types import Tensor


def dropout_of_levels(inputs: Tensor, rate: float, seed: Any, num_levels: int) -> Any:
    """Drops entries whose random level is below a threshold, and scales the other entries.

    A level is one byte of a random integer, so one integer serves four entries. The threshold is
    `rate * num_levels`, rounded up or down at random for the whole tensor. The scale corresponds to
    the rounded threshold, so the expected result is the input.

    Args:
        inputs: Float tensor of any shape.
        rate: Float, fraction of the entries to drop, at most `1 - 1 / num_levels`.
        seed: Int tensor of shape `(2,)`.
        num_levels: Int, 256.

    Returns:
        Tensor of the shape of `inputs`.
    """
    import tensorflow as tf

    size = tf.size(inputs, out_type=tf.int64)  # attention weights can exceed the range of int32
    seed = tf.cast(seed, "int32")
    integers = tf.random.stateless_uniform([(size + 3) // 4 + 1], seed, None, None, "int32")
    levels = tf.reshape(tf.bitcast(integers, "int8"), [-1])[:size]
    uniform = tf.cast(integers[-1], "float32") / 2**32 + 0.5  # not used for levels
    threshold = tf.minimum(tf.floor(rate * num_levels + uniform), num_levels - 1)
    least = tf.cast(threshold - num_levels // 2, "int8")
    is_kept = tf.reshape(levels, tf.shape(inputs)) >= least
    scale = tf.cast(num_levels / (num_levels - threshold), inputs.dtype)
    return inputs * (tf.cast(is_kept, inputs.dtype) * scale)
