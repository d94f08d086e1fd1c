from keras import ops

from keras_attn._backend.replicas import num_replicas, sum_over_replicas
from keras_attn._types import Mask, Tensor


def coverage_loss(weights: Tensor, mask: Mask) -> Tensor:
    """What is attended to again: the mean over the target of the overlap with all before.

        c_t  = sum_{t' < t} a_t'
        loss = mean_t sum_s min(a_ts, c_ts)

    Introduced by [See et al., 2017](https://arxiv.org/abs/1704.04368), equation 12.

    Args:
        weights: `(batch, target, source)`.
        mask: boolean `(batch, target)`, True at positions that count; 0 if there are none. Those of
            all replicas of a strategy count alike.

    Returns:
        float32 scalar.
    """
    weights = ops.cast(weights, "float32")
    before = ops.cumsum(weights, axis=1) - weights  # (B, T, S)
    overlap = ops.sum(ops.minimum(weights, before), axis=-1)  # (B, T)
    mask = ops.cast(mask, "float32")
    (count,) = sum_over_replicas([ops.sum(mask)])
    # Keras takes the mean of the losses that the replicas add.
    return num_replicas() * ops.sum(overlap * mask) / ops.maximum(count, 1.0)
