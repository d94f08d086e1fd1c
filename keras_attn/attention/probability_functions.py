"""Scores to weights: the functions that a mechanism's `probability_fn` names.

Each takes scores `(batch, target, source)` and a boolean mask that broadcasts to them, and returns
weights of the scores' shape and dtype. Masked positions get weight exactly 0; the others of a row
sum to 1, unless all of it is masked. Computed in float32, or in float64 for scores of that dtype.
"""

import math

from keras import ops

from keras_attn._types import Tensor
from keras_attn.masks import masked_softmax, scores_of_mask, wide_dtype


def masked_sparsemax(scores: Tensor, mask: Tensor) -> Tensor:
    """Sparsemax: the point of the simplex that is nearest to the scores.

        a_s = max(e_s - tau, 0)                               with tau such that sum_s a_s = 1

    [Martins and Astudillo, 2016](https://arxiv.org/abs/1602.02068), algorithm 1. Positions whose
    score is far below the best get weight exactly 0.
    """
    dtype = wide_dtype(scores)
    masked = ops.cast(scores, dtype) + scores_of_mask(mask, dtype)  # (B, T, S)
    masked = masked - ops.stop_gradient(_largest(masked))
    falling = -ops.sort(-ops.stop_gradient(masked), axis=-1)  # (B, T, S)
    rank = 1.0 + ops.cast(ops.arange(ops.shape(masked)[-1], dtype="int32"), dtype)  # (S,)
    # The condition holds for the best ones and fails from the first that it fails for.
    is_in_support = 1.0 + rank * falling > ops.cumsum(falling, axis=-1)  # (B, T, S)
    least = -_largest(-ops.where(is_in_support, falling, 0.0))  # (B, T, 1)
    support = ops.cast(masked >= least, dtype)  # (B, T, S)
    size = ops.sum(support, axis=-1, keepdims=True)
    threshold = (ops.sum(support * masked, axis=-1, keepdims=True) - 1.0) / size  # (B, T, 1)
    weights = ops.relu(masked - threshold) * support * ops.cast(mask, dtype)
    return ops.cast(weights, scores.dtype)


def masked_hardmax(scores: Tensor, mask: Tensor) -> Tensor:
    """All weight on the position with the best score; of several, on the first.

    No gradient passes: train with another function, and set `probability_fn` for inference.
    """
    dtype = wide_dtype(scores)
    masked = ops.cast(scores, dtype) + scores_of_mask(mask, dtype)  # (B, T, S)
    is_best = ops.cast(masked >= _largest(masked), dtype)
    is_first = ops.cast(ops.cumsum(is_best, axis=-1) < 1.5, dtype)
    weights = is_best * is_first * ops.cast(mask, dtype)
    return ops.cast(ops.stop_gradient(weights), scores.dtype)


def _largest(values):
    """The largest value of the last axis, which is kept; also of no rows at all."""
    return ops.max(values, axis=-1, keepdims=True, initial=-math.inf)


PROBABILITY_FUNCTIONS = {
    "softmax": masked_softmax,
    "sparsemax": masked_sparsemax,
    "hardmax": masked_hardmax,
}
