"""Tensors that get one more column at each step.

TensorFlow lets a tensor grow inside of a loop, which on ONNX Runtime is far cheaper than updating a
full one. Other backends need the same shapes at every step: there the tensor has all columns from
the start.
"""

import keras
from keras import ops

from keras_attn._backend.gather import gather_rows
from keras_attn._backend.integers import slice_starts


def grows(growing=None):
    """Whether a history grows: as asked, by default where the backend lets tensors change shape."""
    return keras.backend.backend() == "tensorflow" if growing is None else growing


def new_history(rows, rest, dtype, capacity, growing=None):
    """A history without columns.

    TensorFlow fixes the shapes of a loop by what it knows of the first values. So the columns of a
    growing history are chosen by an index that is empty, but not by its type.

    Args:
        rows: tuple `(batch, beams)`.
        rest: tuple, shape of one entry.
        dtype: dtype.
        capacity: int, the columns that can be needed; used where tensors do not grow.
        growing: bool, whether the history grows. Default `None`: where the backend can.

    Returns:
        Zeros `(batch, beams, 0 or capacity, *rest)`.
    """
    if not grows(growing):
        return ops.zeros((*rows, max(1, capacity), *rest), dtype=dtype)
    if keras.backend.backend() != "tensorflow":
        return ops.zeros((*rows, 0, *rest), dtype=dtype)
    (no_columns,) = ops.nonzero(ops.zeros((1,), dtype="bool"))
    return gather_rows(ops.zeros((*rows, 1, *rest), dtype=dtype), no_columns, axis=2)


def append(history, entry, step):
    """Adds one column, `entry` `(batch, beams, ...)`; otherwise like `extend`."""
    return extend(history, entry[:, :, None], step)


def extend(history, entries, step, growing=None):
    """Adds columns.

    Args:
        history: `(batch, beams, columns, ...)`.
        entries: `(batch, beams, new columns, ...)`.
        step: int32 scalar, the columns that are in use.
        growing: as in `new_history`.

    Returns:
        The new history.
    """
    if grows(growing):
        return ops.concatenate([history, entries], axis=2)
    start = slice_starts(0, 0, step, *[0] * (len(history.shape) - 3))
    return ops.slice_update(history, start, entries)
