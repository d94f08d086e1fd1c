from keras import ops

from keras_attn._types import Tensor

INCREMENT = 0x9E3779B9  # 2**32 divided by the golden ratio, rounded to an odd number


def uniform_numbers(seeds: Tensor, *sizes: int | Tensor) -> Tensor:
    """Returns random numbers in [0, 1) that only depend on seeds and are equal on all runtimes.

        h[b]    = mix(seeds[b] + c)
        h[b, j] = mix(h[b] + (j + 1) c)

    Each further axis is computed like the axis of j, from the numbers h of the previous axes. The
    result is the upper 24 bits of h, divided by 2**24. The arithmetic is on 32-bit integers, and c
    is 0x9E3779B9. The function `mix` is the finalizer of
    [MurmurHash3](https://github.com/aappleby/smhasher/wiki/MurmurHash3). `mix` maps equally spaced
    numbers to random numbers ([Steele et al., 2014](https://doi.org/10.1145/2660193.2660195)).

    Args:
        seeds: Int32 tensor of shape `(batch,)`. Equal seeds result in equal numbers. Different
            seeds, even adjacent ones, result in independent numbers.
        *sizes: Ints or scalar int32 tensors, sizes of the axes after the batch axis.

    Returns:
        Float32 tensor of shape `(batch, *sizes)`, multiples of 2**-24.
    """
    bits = _mix(seeds + _int32(INCREMENT))
    for size in sizes:
        spaced = (ops.arange(size, dtype="int32") + 1) * _int32(INCREMENT)
        bits = _mix(ops.expand_dims(bits, -1) + spaced)
    return ops.cast(_shift_right(bits, 8), "float32") * 2.0**-24


def _mix(bits):
    for places, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = ops.bitwise_xor(bits, _shift_right(bits, places)) * _int32(factor)
    return ops.bitwise_xor(bits, _shift_right(bits, 16))


def _shift_right(bits, places):
    """Logical right shift of int32 numbers: fills with zeros instead of the sign bit."""
    shifted = ops.right_shift(bits, ops.cast(places, "int32"))
    # LiteRT has no bitwise AND. This addition clears the copies of the sign bit.
    return ops.where(bits < 0, shifted + ops.cast(2 ** (32 - places), "int32"), shifted)


def _int32(bits):
    """Converts an unsigned 32-bit integer of at least 2**31 to the int32 with the same bits."""
    return ops.cast(bits - 2**32, "int32")
