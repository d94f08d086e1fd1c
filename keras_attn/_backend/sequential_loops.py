"""Loops that run one iteration at a time, to limit memory.

On TensorFlow, loops in `keras.ops` run ten iterations in parallel, and need ten times as much
memory as one iteration.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from keras_attn._backend.litert_tracing import is_traced_for_litert
from keras_attn._backend.scan import scan
from keras_attn._types import Tensor


def map_sequentially(function: Callable[..., Any], blocks: Any) -> Any:
    """Runs `ops.map` one block at a time. The result has the dtype of `blocks[-1]`."""
    if keras.backend.backend() != "tensorflow":
        return ops.map(function, blocks)
    import tensorflow as tf

    if is_traced_for_litert():
        first = function(tree.map_structure(lambda block: block[0], blocks))
        # Each step ignores the carry. `first` only gives the loop the shape of a result.
        return scan(lambda _, block: function(block), first, blocks, lambda result: result)[1]
    return tf.map_fn(function, blocks, fn_output_signature=blocks[-1].dtype, parallel_iterations=1)


def scan_sequentially(
    step: Callable[[Any, Any], Any], carry: Any, inputs: Any, collect: Callable[[Any], Any]
) -> tuple[Any, Any]:
    """Runs `scan` one step at a time."""
    return scan(step, carry, inputs, collect, parallel_iterations=1)


def at_least_one(size: int | Tensor) -> Any:
    """Returns the maximum of a size and 1, for sequences that may be empty."""
    return max(size, 1) if isinstance(size, int) else ops.maximum(size, 1)


def add_same_shape(total: Tensor, addend: Tensor) -> Tensor:
    """Adds tensors and keeps the static shape of `total`, as required for a loop state."""
    return total + ops.reshape(ops.cast(addend, total.dtype), ops.shape(total))
