"""Loops that compute one step after the other, so that the memory is that of one step.

The loops of keras.ops let TensorFlow compute ten steps at once, in ten times the memory.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor


def map_sequentially(function: Callable[..., Any], blocks: Any) -> Any:
    """`ops.map`, one block after the other; the result has the dtype of the last of `blocks`."""
    if keras.backend.backend() != "tensorflow":
        return ops.map(function, blocks)
    import tensorflow as tf

    return tf.map_fn(function, blocks, fn_output_signature=blocks[-1].dtype, parallel_iterations=1)


def while_loop_sequentially(
    condition: Callable[..., Any], body: Callable[..., Any], state: Any
) -> Any:
    """`ops.while_loop`, one step after the other."""
    if keras.backend.backend() != "tensorflow":
        return ops.while_loop(condition, body, state)
    import tensorflow as tf

    return tf.while_loop(condition, body, state, parallel_iterations=1)


def at_least_one(size: int | Tensor) -> Any:
    """The size of a block, or the number of blocks, of sequences that may have no positions."""
    return max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)


def add_same_shape(total: Tensor, addend: Tensor) -> Tensor:
    """Sum that keeps the static shape, as the state of a loop must."""
    return total + ops.reshape(ops.cast(addend, total.dtype), ops.shape(total))
