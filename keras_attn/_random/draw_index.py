import math

from keras import ops

from keras_attn._backend.gather import gather_beams
from keras_attn._backend.integers import sum_int32
from keras_attn._types import Tensor

WHOLE = 2.0**30
"""What a probability of 1 becomes: sums of whole numbers are the same in any order."""


def draw_index(probs: Tensor, uniforms: Tensor) -> Tensor:
    """Inverse transform sampling: an index for each row, by its probability.

    First a block of about `sqrt(V)` neighbours is drawn and then one of them. So few sums are
    compared with a random number, which is faster, and seldom decided by the last digits of the
    probabilities, which are others in another runtime.

    Args:
        probs: float32 `(rows, V)`, of a sum not above 1. What is below 2**-30 is never drawn.
        uniforms: float32 `(rows, 2)`, in [0, 1).

    Returns:
        int32 `(rows, 1)`.
    """
    size = probs.shape[-1]
    length = math.isqrt(size - 1) + 1
    padding = -size % length
    parts = ops.cast(ops.pad(probs, [[0, 0], [0, padding]]) * WHOLE, "int32")
    blocks = ops.reshape(parts, (-1, (size + padding) // length, length))
    block = _draw(sum_int32(blocks, axis=-1), uniforms[:, :1])  # (rows, 1)
    inside = ops.squeeze(gather_beams(blocks, block), axis=1)  # (rows, length)
    return ops.minimum(block * length + _draw(inside, uniforms[:, 1:]), size - 1)


def _draw(parts, uniform):
    """The index of the first sum that is above a random share of all, int32 `(rows, 1)`."""
    sums = ops.cumsum(parts, axis=-1)
    share = ops.cast(uniform * ops.cast(sums[:, -1:], "float32"), "int32")
    index = sum_int32(sums <= share, axis=-1, keepdims=True)
    return ops.minimum(index, parts.shape[-1] - 1)  # where there are no numbers but NaN
