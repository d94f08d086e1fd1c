"""Functions that map attention scores to weights, selected by `probability_fn`.

Each function takes scores `(batch, target, source)` and a boolean mask that can be broadcast to
this shape, and returns weights with the shape and dtype of the scores. Masked positions get a
weight of exactly 0, and so do positions with a score of minus infinity. The other weights of a row
sum to 1. Computations are in float32, or in float64 for float64 scores.
"""

import math

from keras import ops

from keras_attn._masks import apply_mask, masked_softmax
from keras_attn._types import Tensor


def masked_sparsemax(scores: Tensor, mask: Tensor) -> Tensor:
    """Sparsemax: the Euclidean projection of the scores onto the probability simplex.

        a_s = max(e_s - tau, 0),    tau such that sum_s a_s = 1

    Sparsemax was introduced by [Martins and Astudillo, 2016](https://arxiv.org/abs/1602.02068),
    algorithm 1. Positions with a score far below the maximum get a weight of exactly 0.

    Args:
        scores: Tensor of shape `(batch, target, source)`.
        mask: Boolean tensor, broadcastable to `scores`.

    Returns:
        Weights of the shape and dtype of `scores`.
    """
    masked, allowed = apply_mask(scores, mask)  # (B, T, S)
    dtype = masked.dtype
    masked = masked - ops.stop_gradient(_largest(masked))
    falling = -ops.sort(-ops.stop_gradient(masked), axis=-1)  # (B, T, S)
    rank = 1.0 + ops.cast(ops.arange(ops.shape(masked)[-1], dtype="int32"), dtype)  # (S,)
    # True for the positions of the support, which come first in `falling`. The support is the set
    # of positions with a weight above 0.
    is_in_support = 1.0 + rank * falling > ops.cumsum(falling, axis=-1)  # (B, T, S)
    least = -_largest(-ops.where(is_in_support, falling, 0.0))  # (B, T, 1)
    support = ops.cast(masked >= least, dtype)  # (B, T, S)
    size = ops.sum(support, axis=-1, keepdims=True)
    threshold = (ops.sum(support * masked, axis=-1, keepdims=True) - 1.0) / size  # (B, T, 1)
    weights = ops.relu(masked - threshold) * support * allowed
    return ops.cast(weights, scores.dtype)


def masked_hardmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Assigns a weight of 1 to the position with the highest score, and 0 to all others.

    If several positions have the highest score, the first of these positions is selected. The
    function has no gradient: train with a different function, then set `probability_fn` for
    inference.

    Args:
        scores: Tensor of shape `(batch, target, source)`.
        mask: Boolean tensor, broadcastable to `scores`.

    Returns:
        Weights of the shape and dtype of `scores`.
    """
    masked, allowed = apply_mask(scores, mask)  # (B, T, S)
    is_best = ops.cast(masked >= _largest(masked), masked.dtype)
    is_first = ops.cast(ops.cumsum(is_best, axis=-1) < 1.5, masked.dtype)
    weights = is_best * is_first * allowed
    return ops.cast(ops.stop_gradient(weights), scores.dtype)


def _largest(values):
    """Returns the maximum over the last axis, with `keepdims`. The axis may be empty."""
    return ops.max(values, axis=-1, keepdims=True, initial=-math.inf)


PROBABILITY_FUNCTIONS = {
    "softmax": masked_softmax,
    "sparsemax": masked_sparsemax,
    "hardmax": masked_hardmax,
}
