from keras import ops

from keras_attn._types import Tensor

INCREMENT = 0x9E3779B9  # 2**32 over the golden ratio, rounded to an odd number


def uniform_numbers(seeds: Tensor, *sizes: int | Tensor) -> Tensor:
    """Returns random numbers in [0, 1) that are a function of a seed and an index, on all runtimes.

        h[b]    = mix(seeds[b] + i)
        h[b, j] = mix(h[b] + (j + 1) i), and so on for each further axis

    on 32 bits, with `i = 0x9E3779B9`. A mixing function, here the finalizer of
    [MurmurHash3](https://github.com/aappleby/smhasher/wiki/MurmurHash3), turns equally spaced
    numbers into random numbers ([Steele et al., 2014](https://doi.org/10.1145/2660193.2660195)).

    Args:
        seeds: Int32 tensor of shape `(batch,)`. Equal seeds give equal numbers; adjacent seeds give
            independent numbers.
        *sizes: Ints or scalar int32 tensors, sizes of the further axes.

    Returns:
        Float32 tensor of shape `(batch, *sizes)`, multiples of 2**-24.
    """
    bits = _mix(seeds + _int32(INCREMENT))
    for size in sizes:
        spaced = (ops.arange(size, dtype="int32") + 1) * _int32(INCREMENT)
        bits = _mix(bits[..., None] + spaced)
    return ops.cast(_shift_right(bits, 8), "float32") * 2.0**-24


def _mix(bits):
    for places, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = ops.bitwise_xor(bits, _shift_right(bits, places)) * _int32(factor)
    return ops.bitwise_xor(bits, _shift_right(bits, 16))


def _shift_right(bits, places):
    """Shifts int32 bits to the right and fills with zeros, instead of the sign."""
    shifted = ops.right_shift(bits, ops.cast(places, "int32"))
    return ops.bitwise_and(shifted, ops.cast(2 ** (32 - places) - 1, "int32"))


def _int32(bits):
    """Returns the int32 with the given bits, whose first bit is 1."""
    return ops.cast(bits - 2**32, "int32")
