"""Numbers of positions: how they are counted, and what shape they have."""

from keras import ops

from keras_attn._types import StaticShape, Tensor


def position_range(length: int | Tensor, start_index: int | Tensor = 0) -> Tensor:
    """Numbers `length` consecutive positions.

    Args:
        length: int or int32 scalar tensor, how many.
        start_index: int, integer scalar tensor or integer tensor `(batch,)`, the first position;
            one for each row where rows differ. Default 0.

    Returns:
        int32 `(1, length)`, or `(batch, length)` for a `start_index` of shape `(batch,)`.

    Raises:
        ValueError: if `start_index` has more than one axis.

    Example:

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
            "start_index must be an integer, a scalar tensor or a tensor (batch,). "
            f"Received: start_index with shape {tuple(start_index.shape)}."
        )
    columns = ops.arange(length, dtype="int32")
    return ops.reshape(start_index, (-1, 1)) + columns  # (1 or B, T)


def check_position_shapes(
    query_positions_shape: StaticShape, key_positions_shape: StaticShape
) -> None:
    """Raises a `ValueError` unless both are `(1 or batch, time)`."""
    shapes = {"query_positions": query_positions_shape, "key_positions": key_positions_shape}
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise ValueError(
                f"{name} must have shape (1 or batch, time), as from position_range. "
                f"Received: {name} with shape {tuple(shape)}."
            )
