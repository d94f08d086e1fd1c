from keras import ops

from keras_attn._types import Tensor


def coverage_penalty(coverage: Tensor, weight: float) -> Tensor:
    """What the score of a hypothesis loses for the source positions that it has hardly looked at.

    With the weight b and the attention weights a of all its tokens, the end token's included:

        b sum_s log(min(sum_t a_ts, 1))

    over the positions that have any. Introduced by [Wu et al., 2016](
    https://arxiv.org/abs/1609.08144), (14). Positions without any attention, such as padding, are
    left out, as in TensorFlow Addons, OpenNMT-tf and CTranslate2. So it is for weights that are
    positive wherever they may be: those of sparsemax, hardmax or a window are exactly 0 for words
    that were left out, too, and so are, in float16, those of a softmax below 3e-8.

    Args:
        coverage: floats `(..., source)`, the sums of the attention weights.
        weight: float >= 0.

    Returns:
        float32 `(...)`, at most 0: what is added to scores.
    """
    coverage = ops.cast(coverage, "float32")
    attended = ops.minimum(ops.where(coverage > 0, coverage, 1.0), 1.0)
    return weight * ops.sum(ops.log(attended), axis=-1)
