"""Tensors that get one more column at each step.

TensorFlow lets a tensor grow inside of a loop, which on ONNX Runtime is far cheaper than updating a
full one. Other backends need the same shapes at every step: there the tensor has all columns from
the start.
"""

import keras
from keras import ops


def grows():
    """Whether tensors may change their shape inside of a loop on this backend."""
    return keras.backend.backend() == "tensorflow"


def new_history(rows, rest, dtype, capacity, zero):
    """A history without columns.

    Args:
        rows: tuple `(batch, beams)`.
        rest: tuple, shape of one entry.
        dtype: dtype.
        capacity: int, the columns that can be needed; used where tensors cannot grow.
        zero: int32 scalar that is 0 but unknown when tracing, see `hidden_zero`.

    Returns:
        Zeros `(batch, beams, 0 or capacity, *rest)`.
    """
    columns = 1 if grows() else max(1, capacity)
    history = ops.zeros((*rows, columns, *rest), dtype=dtype)
    return history[:, :, :zero] if grows() else history


def append(history, entry, step):
    """Adds one column.

    Args:
        history: `(batch, beams, columns, ...)`.
        entry: `(batch, beams, ...)`.
        step: int32 scalar, the columns that are in use.

    Returns:
        The new history.
    """
    if grows():
        return ops.concatenate([history, entry[:, :, None]], axis=2)
    start = [0, 0, step] + [0] * (len(history.shape) - 3)
    return ops.slice_update(history, start, entry[:, :, None])


def hidden_zero(mask):
    """An int32 zero whose value shape inference cannot see.

    A tensor cut to this length has an unknown length when the loop is traced, and may grow. Made
    from a comparison of values with themselves, it costs one node outside of the loop.
    """
    return ops.cast(ops.any(ops.not_equal(mask, mask)), "int32")
