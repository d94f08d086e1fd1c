"""Buffers that get one more column at each step.

On TensorFlow the shape of a tensor can grow inside a loop. On ONNX Runtime this is far cheaper than
updating a buffer of full size. The other backends need the same shapes at every step, so there the
buffer has all columns from the start.
"""

from typing import Any

import keras
from keras import ops

from keras_attn._backend.gather import gather_rows
from keras_attn._backend.integers import slice_starts
from keras_attn._types import Tensor


def supports_growth(growing: bool | None = None) -> bool:
    """Returns `growing`, or by default whether shapes can grow on this backend."""
    return keras.backend.backend() == "tensorflow" if growing is None else growing


def new_buffer(
    rows: tuple[Any, Any],
    rest: tuple[Any, ...],
    dtype: Any,
    capacity: int,
    growing: bool | None = None,
) -> Tensor:
    """Creates a buffer without columns.

    TensorFlow fixes the shapes of a loop by the shapes of its first values. An empty constant index
    would fix the number of columns at 0, so the index is computed.

    Args:
        rows: tuple `(batch, beams)`.
        rest: tuple, shape of one entry.
        dtype: dtype.
        capacity: int, the largest number of columns. Used only if the buffer does not grow.
        growing: bool, whether the buffer grows. Defaults to whether it can on this backend.

    Returns:
        Zeros `(batch, beams, 0 or capacity, *rest)`.
    """
    if not supports_growth(growing):
        return ops.zeros((*rows, max(1, capacity), *rest), dtype=dtype)
    if keras.backend.backend() != "tensorflow":
        return ops.zeros((*rows, 0, *rest), dtype=dtype)
    (no_columns,) = ops.nonzero(ops.zeros((1,), dtype="bool"))
    return gather_rows(ops.zeros((*rows, 1, *rest), dtype=dtype), no_columns, axis=2)


def append(buffer: Tensor, entry: Tensor, step: int | Tensor) -> Tensor:
    """Adds one column, `entry` `(batch, beams, ...)`. Otherwise like `extend`."""
    return extend(buffer, entry[:, :, None], step)


def extend(
    buffer: Tensor, entries: Tensor, step: int | Tensor, growing: bool | None = None
) -> Tensor:
    """Adds columns.

    Args:
        buffer: `(batch, beams, columns, ...)`.
        entries: `(batch, beams, new columns, ...)`.
        step: int32 scalar, the number of columns in use.
        growing: as in `new_buffer`.

    Returns:
        The new buffer.
    """
    if supports_growth(growing):
        return ops.concatenate([buffer, entries], axis=2)
    start = slice_starts(0, 0, step, *[0] * (len(buffer.shape) - 3))
    return ops.slice_update(buffer, start, entries)
