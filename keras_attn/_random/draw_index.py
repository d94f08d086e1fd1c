import math

from keras import ops

from keras_attn._backend.gather import gather_beams
from keras_attn._backend.integers import sum_int32
from keras_attn._types import Tensor

WHOLE = 2.0**30
"""Factor that maps probabilities to integers, because integer sums do not depend on the order."""


def draw_index(probs: Tensor, uniforms: Tensor) -> Tensor:
    """Samples an index for each row by inverse transform sampling.

    The function first samples a block of about `sqrt(V)` adjacent indices, and then an index in
    this block. The function therefore compares fewer sums with a random number than a search over
    all indices. Fewer comparisons are faster, and rounding differences between runtimes rarely
    change the result.

    Args:
        probs: Float32 tensor of shape `(rows, V)`, probabilities. The sum of a row is at most 1.
            Probabilities below 2**-30 are treated as 0.
        uniforms: Float32 tensor of shape `(rows, 2)` with numbers in [0, 1).

    Returns:
        Int32 tensor of shape `(rows, 1)`.
    """
    size = probs.shape[-1]
    length = math.isqrt(size - 1) + 1
    padding = -size % length
    parts = ops.cast(ops.pad(probs, [[0, 0], [0, padding]]) * WHOLE, "int32")
    blocks = ops.reshape(parts, (-1, (size + padding) // length, length))  # (rows, N, length)
    block = _draw(sum_int32(blocks, axis=-1), uniforms[:, :1])  # (rows, 1)
    inside = ops.squeeze(gather_beams(blocks, block), axis=1)  # (rows, length)
    return ops.minimum(block * length + _draw(inside, uniforms[:, 1:]), size - 1)


def _draw(parts, uniform):
    """Returns the index `(rows, 1)` of the first cumulative sum above `uniform * total`."""
    sums = ops.cumsum(parts, axis=-1)
    share = ops.cast(uniform * ops.cast(sums[:, -1:], "float32"), "int32")
    index = sum_int32(sums <= share, axis=-1, keepdims=True)
    return ops.minimum(index, parts.shape[-1] - 1)  # rows of NaN have no such index
