from keras import ops

from keras_attn._backend.replicas import num_replicas, sum_over_replicas
from keras_attn._types import Mask, Tensor


def coverage_loss(weights: Tensor, mask: Mask) -> Tensor:
    """Penalizes repeated attention: the mean overlap of each step with the previous steps.

        c_t  = sum_{t' < t} a_t'
        loss = mean_t sum_s min(a_ts, c_ts)

    The loss was introduced by [See et al., 2017](https://arxiv.org/abs/1704.04368), equation 12.

    Args:
        weights: Tensor of shape `(batch, target, source)`.
        mask: Boolean tensor of shape `(batch, target)`; `True` marks steps that contribute to the
            mean. With a distribution strategy, the mean is over the steps of all replicas.

    Returns:
        Scalar float32 tensor; 0 if the mask contains no `True`.
    """
    weights = ops.cast(weights, "float32")
    before = ops.cumsum(weights, axis=1) - weights  # (B, T, S)
    overlap = ops.sum(ops.minimum(weights, before), axis=-1)  # (B, T)
    mask = ops.cast(mask, "float32")
    (count,) = sum_over_replicas([ops.sum(mask)])
    # Multiply by the number of replicas, because Keras averages the added losses over the replicas.
    return num_replicas() * ops.sum(overlap * mask) / ops.maximum(count, 1.0)
