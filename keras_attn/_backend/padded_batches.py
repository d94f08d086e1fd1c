"""Batches that are padded to a multiple of the number of replicas, with the number of real rows.

TensorFlow and JAX divide a batch evenly among the replicas. A padded batch repeats its last row,
and its inputs become a dict of the inputs and a marker, which `unpack` removes in each step:

    (x, y) -> ({"inputs": padded x, "rows": marker}, padded y)

The marker is different on each backend. TensorFlow runs a step on each replica: the marker `(B,)`
is 1 for a real row. JAX runs one compiled step for the global batch, and the number of real rows
must be a static shape: the marker `(replicas, 1 + missing)` has a column for each added row.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn._backend.private_names import implicit_mask, set_implicit_mask

INPUTS, ROWS = "keras_attn_inputs", "keras_attn_rows"


def pad_batch(batch: Any, replicas: int) -> tuple[Any, ...]:
    """Pads and marks a batch of NumPy arrays for JAX.

    Args:
        batch: Inputs, or tuple of inputs, labels and sample weights: nested arrays whose first axis
            is the batch axis. `None` stays `None`.
        replicas: Int >= 1, number of replicas.

    Returns:
        Tuple with padded parts. The inputs are marked.
    """
    inputs, *targets_and_weights = batch if isinstance(batch, tuple) else (batch,)
    missing = -num_rows(inputs) % replicas
    pad = _tree_map(lambda a: np.concatenate([a, np.repeat(np.asarray(a)[-1:], missing, axis=0)]))
    marker = np.zeros((replicas, 1 + missing), "int8")
    return {INPUTS: pad(inputs), ROWS: marker}, *map(pad, targets_and_weights)


def pad_dataset(dataset: Any, replicas: int, check: Callable[[Any], Any]) -> Any:
    """Pads and marks the batches of a `tf.data.Dataset`.

    Args:
        dataset: `tf.data.Dataset` of batches, see `pad_batch`.
        replicas: Int >= 1, number of replicas.
        check: Function of the number of rows, an int32 scalar tensor. It may return an operation
            that fails.

    Returns:
        `tf.data.Dataset`.
    """
    import tensorflow as tf

    def pad_parts(inputs, *targets_and_weights):
        size = tf.shape(_first(inputs))[0]
        with tf.control_dependencies([operation for operation in [check(size)] if operation]):
            missing = -size % replicas
        pad = _tree_map(lambda a: tf.concat([a, tf.repeat(a[-1:], missing, axis=0)], axis=0))
        marker = tf.concat([tf.ones(size, tf.int32), tf.zeros(missing, tf.int32)], axis=0)  # (B,)
        return {INPUTS: pad(inputs), ROWS: marker}, *map(pad, targets_and_weights)

    return dataset.map(pad_parts)


def unpack(data: Any) -> tuple[Any, Any]:
    """Returns the data of a step without the marker, and the marker or `None`."""
    if not isinstance(data, tuple) or not isinstance(data[0], dict) or ROWS not in data[0]:
        return data, None
    return (data[0][INPUTS], *data[1:]), data[0][ROWS]


def without_padding(data: Any) -> Any:
    """Returns the real rows of a batch that a JAX step receives."""
    data, marker = unpack(data)
    return data if marker is None else first_rows(data, num_rows(data) - marker.shape[1] + 1)


def first_rows(parts: Any, rows: Any) -> Any:
    """Returns the first rows of nested arrays or tensors, with their implicit masks."""

    def cut(array):
        part, mask = array[:rows], implicit_mask(array)
        if mask is not None:
            set_implicit_mask(part, mask[:rows])
        return part

    return _tree_map(cut)(parts)


def num_rows(parts: Any) -> Any:
    """Returns the size of the batch axis of nested arrays."""
    return _first(parts).shape[0]


def _first(parts):
    return next(part for part in keras.tree.flatten(parts) if part is not None)


def _tree_map(function):
    """Returns a function that applies `function` to the leaves of a structure except `None`."""
    return lambda parts: keras.tree.map_structure(
        lambda part: None if part is None else function(part), parts
    )
