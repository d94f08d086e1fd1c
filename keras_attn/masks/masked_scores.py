"""Functions that apply masks to attention scores and sequences."""

from typing import Any

import keras
from keras import ops

from keras_attn._types import Mask, Tensor

# This value is added to the score of a masked position. The value is far below every other score,
# even if queries and keys are not normalized: features of size 1e5 can have scores of 1e10 and
# more. The value is finite, because the softmax of a row of -inf is NaN. The sum of several of
# these values, or of this value and the lowest float32, is also finite.
MASKED_SCORE = -1e30


def scores_of_mask(mask: Tensor, dtype: Any = "float32") -> Tensor:
    """Returns an additive mask: 0 where attention is allowed, `MASKED_SCORE` elsewhere."""
    return (1.0 - ops.cast(mask, dtype)) * MASKED_SCORE


def wide_dtype(*values: Any) -> str:
    """Returns the dtype for sums and softmaxes: float64 if a value is float64, otherwise float32.

    Args:
        *values: Tensors or dtypes.
    """
    dtypes = [keras.backend.standardize_dtype(getattr(each, "dtype", each)) for each in values]
    return "float64" if "float64" in dtypes else "float32"


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis in which masked positions get a weight of exactly 0.

    If all positions of a row are masked, all its weights are 0. The softmax is computed in float32,
    or in float64 for float64 scores.

    Args:
        scores: Float tensor of shape `(batch, target, source)`.
        mask: Boolean tensor that can be broadcast to `scores`.

    Returns:
        Weights with the shape and dtype of `scores`.
    """
    dtype = wide_dtype(scores)
    masked = ops.cast(scores, dtype) + scores_of_mask(mask, dtype)
    if scores.shape[-1] == 1:
        weights = ops.ones_like(masked)  # Keras warns about a softmax over an axis of size 1.
    else:
        weights = ops.softmax(masked, axis=-1)
    return ops.cast(weights * ops.cast(mask, dtype), scores.dtype)


def masked_mean(values: Tensor, mask: Mask | None = None) -> Tensor:
    """Mean over the unmasked positions.

    Args:
        values: Tensor of shape `(batch, time, features)`.
        mask: Boolean tensor of shape `(batch, time)`. Defaults to `None`: no masked positions.

    Returns:
        Tensor of shape `(batch, features)`. The mean is zero if all positions are masked. Sums are
        computed in float32 or float64, because sums of long sequences overflow in float16.
    """
    if mask is None:
        return ops.mean(values, axis=1)
    dtype = keras.backend.result_type(values.dtype, "float32")
    marks = ops.cast(mask, dtype)[:, :, None]  # (B, T, 1)
    counts = ops.maximum(ops.sum(marks, axis=1), 1.0)  # (B, 1)
    means = ops.sum(ops.cast(values, dtype) * marks, axis=1) / counts
    return ops.cast(means, values.dtype)
