"""Creates position tensors and checks their shapes."""

import numbers

from keras import ops

from keras_attn._types import StaticShape, Tensor


def position_range(length: int | Tensor, start_index: int | Tensor = 0) -> Tensor:
    """Returns consecutive positions.

    Args:
        length: Int or scalar int32 tensor, number of positions.
        start_index: Int or scalar int tensor, the first position, or int tensor of shape
            `(batch,)`, the first position in each row. Defaults to `0`.

    Returns:
        Int32 tensor of shape `(1, length)`, or `(batch, length)` if `start_index` has shape
        `(batch,)`.

    Raises:
        ValueError: If the rank of `start_index` is above 1.

    Example:

    >>> from keras import ops
    >>> ops.convert_to_numpy(position_range(3, 5)).tolist()
    [[5, 6, 7]]
    >>> ops.convert_to_numpy(position_range(3, ops.convert_to_tensor([0, 2]))).tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    if isinstance(start_index, int):
        positions = ops.arange(start_index, start_index + length, dtype="int32")
        return ops.expand_dims(positions, 0)  # (1, T)
    start_index = ops.convert_to_tensor(start_index, "int32")
    if len(start_index.shape) > 1:
        raise ValueError(
            "Expected start_index to be an integer, a scalar tensor or a tensor of shape (batch,). "
            f"Received: start_index with shape {tuple(start_index.shape)}."
        )
    columns = ops.arange(length, dtype="int32")
    return ops.reshape(start_index, (-1, 1)) + columns  # (1 or B, T)


def check_position_shapes(
    query_positions_shape: StaticShape, key_positions_shape: StaticShape
) -> None:
    """Raises a `ValueError` unless the rank of both shapes is 2."""
    shapes = {"query_positions": query_positions_shape, "key_positions": key_positions_shape}
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise ValueError(
                f"Expected {name} of shape (1 or batch, time), as position_range returns it. "
                f"Received: {name} with shape {tuple(shape)}."
            )


def check_offset(offset: object) -> None:
    """Raises a `ValueError` unless a position offset is an integer of at least 0."""
    if not isinstance(offset, numbers.Integral) or isinstance(offset, bool) or offset < 0:
        raise ValueError(
            f"Expected offset to be an integer of at least 0. Received: offset={offset!r}. Use 0 "
            "for positions that begin at 0."
        )
