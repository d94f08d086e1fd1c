"""Integer operations that stay int32 if `jax_enable_x64` is set.

JAX then takes Python integers as int64, sums int32 to int64, and refuses to mix the two in a slice
or in the carry of a loop.
"""

from keras import ops

from keras_attn._types import Tensor


def slice_starts(*starts: int | Tensor) -> list[Tensor]:
    """Returns the starts of a slice, one for each axis, in one integer type.

    Args:
        *starts: ints or integer scalars.

    Returns:
        List of int32 scalars.
    """
    return [ops.cast(start, "int32") for start in starts]


def sum_int32(
    values: Tensor, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """Sums integers, or counts the true values of a boolean tensor.

    Args:
        values: integer or boolean tensor.
        axis: int or tuple of ints. Defaults to all axes.
        keepdims: bool, whether summed axes are kept with size 1. Defaults to `False`.

    Returns:
        int32 tensor.
    """
    values = ops.cast(values, "int32")
    return ops.cast(ops.sum(values, axis=axis, keepdims=keepdims), "int32")
