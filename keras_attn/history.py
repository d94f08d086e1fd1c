"""Tensors that get one more column at each step.

TensorFlow lets a tensor grow inside of a loop, which on ONNX Runtime is far cheaper than updating a
full one. Other backends need the same shapes at every step: there the tensor has all columns from
the start.
"""

import keras
from keras import ops


def grows(growing=None):
    """Whether a history grows: as asked, by default where the backend lets tensors change shape."""
    return keras.backend.backend() == "tensorflow" if growing is None else growing


def new_history(rows, rest, dtype, capacity, zero, growing=None):
    """A history without columns.

    Args:
        rows: tuple `(batch, beams)`.
        rest: tuple, shape of one entry.
        dtype: dtype.
        capacity: int, the columns that can be needed; used where tensors do not grow.
        zero: int32 scalar that is 0 but unknown when tracing, see `hidden_zero`.
        growing: bool, whether the history grows. Default `None`: where the backend can.

    Returns:
        Zeros `(batch, beams, 0 or capacity, *rest)`.
    """
    growing = grows(growing)
    columns = 1 if growing else max(1, capacity)
    history = ops.zeros((*rows, columns, *rest), dtype=dtype)
    return history[:, :, :zero] if growing else history


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
    start = [0, 0, step] + [0] * (len(history.shape) - 3)
    return ops.slice_update(history, start, entries)


def hidden_zero(mask):
    """An int32 zero whose value shape inference cannot see.

    A tensor cut to this length has an unknown length when the loop is traced, and may grow. Made
    from a comparison of values with themselves, it costs one node outside of the loop.
    """
    return ops.cast(ops.any(ops.not_equal(mask, mask)), "int32")
