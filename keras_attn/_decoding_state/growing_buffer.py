"""Buffers that grow by one column at each step.

On TensorFlow, and so in exported files, tensors can grow in a loop. In ONNX Runtime, appending a
column is much faster than updating a buffer of full size. All other backends require constant
shapes in a loop, so their buffers have all columns from the start.

LiteRT allocates all tensors of a loop again after each step that changes a shape. In its files,
buffers grow by `BLOCK_STEPS` columns at a time, see `grow_in_blocks`. All other steps only update
columns.
"""

from typing import Any

import keras
from keras import ops

from keras_attn._backend.gather import gather_rows, true_indices
from keras_attn._backend.integers import slice_starts
from keras_attn._backend.litert_tracing import is_in_blocks
from keras_attn._types import Tensor

BLOCK_STEPS = 16
"""Number of steps between two calls of `widen` in `grow_in_blocks`."""


def grows_each_step(growing: bool | None = None) -> bool:
    """Returns whether `extend` adds columns. Otherwise it updates columns that exist.

    Args:
        growing: Bool, see `new_buffer`. Defaults to `None`.
    """
    return supports_growth(growing) and not (growing is None and is_in_blocks())


def supports_growth(growing: bool | None = None) -> bool:
    """Returns `growing` if it is not `None`, otherwise whether tensors can grow in a loop."""
    return keras.backend.backend() == "tensorflow" if growing is None else growing


def new_buffer(
    rows: tuple[Any, Any],
    rest: tuple[Any, ...],
    dtype: Any,
    capacity: int,
    growing: bool | None = None,
) -> Tensor:
    """Creates an empty buffer.

    If a TensorFlow loop starts with a tensor of a static shape, the shape cannot change in the
    loop. Therefore the function hides from TensorFlow that a growing buffer has 0 columns: it
    gathers columns by an empty tensor of indices, and the size of this tensor is known only at run
    time.

    Args:
        rows: Tuple `(batch, beams)`.
        rest: Tuple, shape of one entry.
        dtype: String, dtype of the entries.
        capacity: Int, number of columns of a buffer that does not grow.
        growing: Bool, whether the buffer grows. Defaults to `None`: `True` on TensorFlow, `False`
            on other backends.

    Returns:
        Zeros of shape `(batch, beams, 0, *rest)` if the buffer grows, otherwise
        `(batch, beams, max(1, capacity), *rest)`.
    """
    if not supports_growth(growing):
        return ops.zeros((*rows, max(1, capacity), *rest), dtype=dtype)
    if keras.backend.backend() != "tensorflow":
        return ops.zeros((*rows, 0, *rest), dtype=dtype)
    no_columns = true_indices(ops.zeros((1,), dtype="bool"))
    return gather_rows(ops.zeros((*rows, 1, *rest), dtype=dtype), no_columns, axis=2)


def append(buffer: Tensor, entry: Tensor, step: int | Tensor) -> Tensor:
    """Adds one column, `entry` of shape `(batch, beams, ...)`, see `extend`."""
    return extend(buffer, entry[:, :, None], step)


def extend(
    buffer: Tensor, entries: Tensor, step: int | Tensor, growing: bool | None = None
) -> Tensor:
    """Adds the entries of new columns to a buffer.

    Args:
        buffer: Tensor of shape `(batch, beams, columns, ...)`.
        entries: Tensor of shape `(batch, beams, new_columns, ...)`.
        step: Int or scalar int32 tensor, number of used columns.
        growing: Bool, see `new_buffer`.

    Returns:
        The new buffer.
    """
    if grows_each_step(growing):
        return ops.concatenate([buffer, entries], axis=2)
    start = slice_starts(0, 0, step, *[0] * (len(buffer.shape) - 3))
    return ops.slice_update(buffer, start, entries)


def widen(buffer: Tensor, columns: int, value: float = 0) -> Tensor:
    """Adds unused columns to a buffer, which `extend` then updates.

    Args:
        buffer: Tensor of shape `(batch, beams, columns, ...)`.
        columns: Int, number of new columns.
        value: Value of all entries of the new columns. Defaults to `0`.

    Returns:
        The new buffer.
    """
    shape = ops.shape(buffer)
    unused = ops.full((*shape[:2], columns, *shape[3:]), value, dtype=buffer.dtype)
    return ops.concatenate([buffer, unused], axis=2)
