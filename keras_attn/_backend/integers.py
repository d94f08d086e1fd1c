"""Integer operations with int32 results, even if `jax_enable_x64` is set.

With `jax_enable_x64`, JAX treats Python integers as int64, and sums of int32 are int64. Slices and
loop carries do not accept a mix of int32 and int64.
"""

from keras import ops

from keras_attn._types import Tensor


def slice_starts(*starts: int | Tensor) -> list[Tensor]:
    """Converts slice start indices to int32.

    Args:
        *starts: Ints or scalar int tensors, one per axis.

    Returns:
        List of scalar int32 tensors.
    """
    return [ops.cast(start, "int32") for start in starts]


def sum_int32(
    values: Tensor, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """Sums integers, or counts `True` values in a boolean tensor.

    Args:
        values: Int or boolean tensor.
        axis: Int or tuple of ints. Defaults to `None`: all axes.
        keepdims: Bool, whether summed axes are kept with size 1. Defaults to `False`.

    Returns:
        Int32 tensor.
    """
    values = ops.cast(values, "int32")
    return ops.cast(ops.sum(values, axis=axis, keepdims=keepdims), "int32")
