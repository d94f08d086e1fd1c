"""Functions that apply masks to attention scores and sequences."""

from typing import Any

import keras
from keras import ops

from keras_attn._backend.float64 import mean
from keras_attn._types import Mask, Tensor

# This value is added to the score at a masked position. It is far below every other score, even if
# queries and keys are not normalized: features of size 1e5 can lead to scores above 1e10. It is
# finite, because the softmax over a row of -inf is NaN. The sum of several such values, or of this
# value and the lowest float32, is also finite.
MASKED_SCORE = -1e30

# Infinite scores become this value. Its sum with `MASKED_SCORE` is still far below all unmasked
# scores.
LARGEST_SCORE = 1e29


def scores_of_mask(mask: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns an additive mask: 0 where attention is allowed, `MASKED_SCORE` elsewhere."""
    return (1.0 - ops.cast(mask, dtype)) * MASKED_SCORE


def wide_dtype(*values: Any) -> str:
    """Returns the dtype for sums and softmaxes: float64 if a value is float64, otherwise float32.

    Args:
        *values: Tensors or dtypes.
    """
    dtypes = [keras.backend.standardize_dtype(getattr(value, "dtype", value)) for value in values]
    return "float64" if "float64" in dtypes else "float32"


def finite_scores(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Replaces infinite scores by finite ones, and marks positions that can get a weight.

    A score of minus infinity excludes a position, like a mask. A score of infinity exceeds all
    other scores. NaN remains NaN.

    Args:
        scores: Float tensor of any shape.

    Returns:
        Tuple of scores in float32, or in float64 for float64 scores, and a boolean tensor with the
        same shape, which is `False` for minus infinity.
    """
    scores = _clipped(scores)
    return scores, _has_weight(scores)


def apply_mask(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Adds a mask to scores that may be infinite.

    Args:
        scores: Float tensor of shape `(..., source)`.
        mask: Boolean tensor that can be broadcast to `scores`.

    Returns:
        Tuple of finite scores, in float32 or in float64 for float64 scores, and a tensor with the
        same shape and dtype: 1 for positions that may be attended to, 0 for masked positions and
        for scores of minus infinity.
    """
    dtype = wide_dtype(scores)
    masked = _clipped(scores) + scores_of_mask(mask, dtype)
    return masked, ops.cast(_has_weight(masked), dtype)


def _clipped(scores):
    return ops.clip(ops.cast(scores, wide_dtype(scores)), MASKED_SCORE, LARGEST_SCORE)


def _has_weight(scores):
    return ops.logical_not(scores < MASKED_SCORE / 2)  # True for NaN, so that it reaches the result


def masked_softmax(scores: Tensor, mask: Tensor, is_finite: bool = False) -> Tensor:
    """Softmax over the last axis in which masked positions get a weight of exactly 0.

    If all positions in a row are masked, all its weights are 0. A score of minus infinity masks a
    position. The softmax is computed in float32, or in float64 for float64 scores.

    Args:
        scores: Float tensor of shape `(batch, target, source)`.
        mask: Boolean tensor that can be broadcast to `scores`.
        is_finite: Bool, whether no score is infinite, which saves operators in each decoding step.
            Defaults to `False`.

    Returns:
        Weights with the shape and dtype of `scores`.

    Raises:
        ValueError: If the shape of `mask` does not fit that of `scores`.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn.masks import masked_softmax
    >>> scores = np.zeros((1, 2, 3), "float32")
    >>> mask = np.array([[[True, True, False], [False, False, False]]])
    >>> ops.convert_to_numpy(masked_softmax(scores, mask)).tolist()
    [[[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]]
    """
    of_scores = tuple(scores.shape)
    sizes = zip(mask.shape, of_scores[-2:], strict=False)
    if len(mask.shape) == 2 and any(size not in (1, None, most) for size, most in sizes if most):
        raise ValueError(
            f"Expected a mask that can be broadcast to the scores, {of_scores}. Received: a mask "
            f"of shape {tuple(mask.shape)}. Convert a mask (batch, source) with "
            "keras_attn.masks.attention_mask."
        )
    dtype = wide_dtype(scores)
    if is_finite:
        masked = ops.cast(scores, dtype) + scores_of_mask(mask, dtype)
        allowed = ops.cast(mask, dtype)
    else:
        masked, allowed = apply_mask(scores, mask)
    if scores.shape[-1] == 1:
        weights = ops.ones_like(masked)  # Keras warns about a softmax over an axis of size 1.
    else:
        weights = ops.softmax(masked, axis=-1)
    return ops.cast(weights * allowed, scores.dtype)


def masked_mean(values: Tensor, mask: Mask | None = None) -> Tensor:
    """Mean over the unmasked positions.

    Args:
        values: Tensor of shape `(batch, time, features)`.
        mask: Boolean tensor of shape `(batch, time)`. Defaults to `None`: no masked positions.

    Returns:
        Tensor of shape `(batch, features)`. The mean is zero if all positions are masked. Sums are
        computed in float32 or float64, because sums over long sequences overflow in float16.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn.masks import masked_mean
    >>> values = ops.convert_to_tensor([[[1.0], [3.0], [9.0]]])
    >>> ops.convert_to_numpy(masked_mean(values, np.array([[True, True, False]]))).tolist()
    [[2.0]]
    """
    if mask is None:
        return mean(values, axis=1)
    dtype = wide_dtype(values)
    marks = ops.cast(mask, dtype)[:, :, None]  # (B, T, 1)
    counts = ops.maximum(ops.sum(marks, axis=1), 1.0)  # (B, 1)
    means = ops.sum(ops.cast(values, dtype) * marks, axis=1) / counts
    return ops.cast(means, values.dtype)
