from keras import ops

from keras_attn._types import Tensor


def coverage_penalty(coverage: Tensor, weight: float) -> Tensor:
    """Penalizes hypotheses that have hardly attended to some source positions.

        penalty = b sum_s log(min(sum_t a_ts, 1))

    with the weight b and the attention weights a of all tokens, including the end token. The sum is
    over the source positions with any attention. Introduced by [Wu et al.,
    2016](https://arxiv.org/abs/1609.08144), equation 14. Positions without any attention, such as
    padding, are left out, as in TensorFlow Addons, OpenNMT-tf and CTranslate2. The penalty
    therefore suits attention whose weights are positive. Weights of sparsemax, hardmax or windows,
    and float16 softmax weights below 3e-8, are also exactly 0 for words that should be penalized.

    Args:
        coverage: Float tensor of shape `(..., source)`, the sums of the attention weights.
        weight: Float >= 0, the weight b.

    Returns:
        Float32 tensor of shape `(...)` with values <= 0, to be added to the scores.
    """
    coverage = ops.cast(coverage, "float32")
    attended = ops.minimum(ops.where(coverage > 0, coverage, 1.0), 1.0)
    return weight * ops.sum(ops.log(attended), axis=-1)
