from keras import ops

from keras_attn._types import Tensor

INCREMENT = 0x9E3779B9  # 2**32 over the golden ratio, rounded to an odd number


def uniform_numbers(seeds: Tensor, *sizes: int | Tensor) -> Tensor:
    """Numbers in [0, 1) that are a function of their place, the same wherever it is computed.

        h[b]    = mix(seeds[b] + i)
        h[b, j] = mix(h[b] + (j + 1) i), and so on for each further axis

    on 32 bits, with `i = 0x9E3779B9`: what mixes them, here the last lines of
    [MurmurHash3](https://github.com/aappleby/smhasher/wiki/MurmurHash3), makes random numbers out
    of equally spaced ones ([Steele et al., 2014](https://doi.org/10.1145/2660193.2660195)).

    Args:
        seeds: int32 `(batch,)`, any. Equal ones give equal numbers, neighbours independent ones.
        *sizes: ints or int32 scalars, the further axes.

    Returns:
        float32 `(batch, *sizes)`, multiples of 2**-24.
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
    """Fills with zeros, where a shift of an int32 alone fills with its sign."""
    shifted = ops.right_shift(bits, ops.cast(places, "int32"))
    return ops.bitwise_and(shifted, ops.cast(2 ** (32 - places) - 1, "int32"))


def _int32(bits):
    """The int32 of these bits, of which the first is 1; sums and products are cut to 32 bits."""
    return ops.cast(bits - 2**32, "int32")
