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


def doubly_stochastic_loss(weights: Tensor, mask: Mask, source_mask: Mask | None = None) -> Tensor:
    """Penalizes source positions whose total attention weight over all steps is not 1.

        loss = mean_b sum_s (1 - sum_t a_bts)^2

    The loss was introduced for image captions by [Xu et al.,
    2015](https://arxiv.org/abs/1502.03044), equation 14.

    Args:
        weights: Tensor of shape `(batch, target, source)`.
        mask: Boolean tensor of shape `(batch, target)`; `True` marks steps that contribute. Batch
            entries without such steps are excluded from the mean. With a distribution strategy, the
            mean is over the batch entries of all replicas.
        source_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that
            contribute. Defaults to `None`: all positions.

    Returns:
        Scalar float32 tensor; 0 if no batch entry contributes.
    """
    mask = ops.cast(mask, "float32")
    sums = ops.sum(ops.cast(weights, "float32") * mask[:, :, None], axis=1)  # (B, S)
    squares = ops.square(1.0 - sums)
    if source_mask is not None:
        squares = squares * ops.cast(source_mask, "float32")
    is_real = ops.max(mask, axis=1)  # (B,)
    (count,) = sum_over_replicas([ops.sum(is_real)])
    # Multiply by the number of replicas, because Keras averages the added losses over the replicas.
    total = ops.sum(ops.sum(squares, axis=1) * is_real)
    return num_replicas() * total / ops.maximum(count, 1.0)
