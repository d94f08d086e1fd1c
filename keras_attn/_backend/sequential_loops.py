"""Loops that compute one iteration after the other, to limit memory.

On TensorFlow, the loops of `keras.ops` compute ten iterations in parallel, with ten times the
memory.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor


def map_sequentially(function: Callable[..., Any], blocks: Any) -> Any:
    """`ops.map`, one block after the other. The result has the dtype of the last of `blocks`."""
    if keras.backend.backend() != "tensorflow":
        return ops.map(function, blocks)
    import tensorflow as tf

    return tf.map_fn(function, blocks, fn_output_signature=blocks[-1].dtype, parallel_iterations=1)


def while_loop_sequentially(
    condition: Callable[..., Any], body: Callable[..., Any], state: Any
) -> Any:
    """`ops.while_loop`, one iteration after the other."""
    if keras.backend.backend() != "tensorflow":
        return ops.while_loop(condition, body, state)
    import tensorflow as tf

    return tf.while_loop(condition, body, state, parallel_iterations=1)


def at_least_one(size: int | Tensor) -> Any:
    """Returns the maximum of a size and 1, for sequences that may be empty."""
    return max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)


def add_same_shape(total: Tensor, addend: Tensor) -> Tensor:
    """Adds and keeps the static shape, as required for the state of a loop."""
    return total + ops.reshape(ops.cast(addend, total.dtype), ops.shape(total))
