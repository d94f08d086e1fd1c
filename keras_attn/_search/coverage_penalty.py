from keras import ops

from keras_attn._types import Tensor


def coverage_penalty(coverage: Tensor, weight: float | Tensor) -> Tensor:
    """Penalizes hypotheses that have paid little attention to some source positions.

        penalty = b sum_s log(min(sum_t a_ts, 1))

    Here b is `weight`, and a_ts is the attention weight of target token t (including the end token)
    at source position s. The penalty was introduced by [Wu et al.,
    2016](https://arxiv.org/abs/1609.08144), equation 14. As in TensorFlow Addons, OpenNMT-tf and
    CTranslate2, the sum over s excludes positions whose attention weights are all 0, such as
    padding. The penalty is therefore only suitable for positive attention weights. Sparsemax,
    hardmax and local windows can also assign exactly 0 to words that should be penalized, and so
    can a float16 softmax, which rounds weights below 3e-8 to 0.

    Args:
        coverage: Float tensor of shape `(..., source)`, the sum of the attention weights at each
            source position.
        weight: Float >= 0 or scalar tensor, the weight b.

    Returns:
        Float32 tensor of shape `(...)` with values <= 0. The search adds it to the scores.
    """
    coverage = ops.cast(coverage, "float32")
    attended = ops.minimum(ops.where(coverage > 0, coverage, 1.0), 1.0)
    return weight * ops.sum(ops.log(attended), axis=-1)
