"""Masks: the only file that builds one or applies one to attention scores.

A mask is boolean and True means "may be attended". Attention masks have shape `(batch, source)`,
one row for every query, or `(batch, target, source)`.
"""

import keras
from keras import ops

# Added to the score of a masked position. Finite, because a selection between finite and infinite
# values does not survive the conversion to ONNX; large enough that `exp` of it is exactly zero in
# float32.
MASKED_SCORE = -1e9


def padding_mask(token_ids, pad_token_id=0):
    """Marks the tokens that are not padding.

    Args:
        token_ids: integer tensor of any shape.
        pad_token_id: int, the id that fills short sequences.

    Returns:
        Boolean tensor of the same shape, True at real tokens.
    """
    return ops.not_equal(token_ids, pad_token_id)


def causal_mask(query_positions, key_positions):
    """Marks the keys that are not in the future of a query.

    Args:
        query_positions: integer tensor `(1 or batch, target)`.
        key_positions: integer tensor `(1 or batch, source)`.

    Returns:
        Boolean tensor `(1 or batch, target, source)`.
    """
    return key_positions[:, None, :] <= query_positions[:, :, None]


def window_mask(query_positions, key_positions, window):
    """Marks the keys that are fewer than `window` positions away, on either side of a query.

    Args:
        query_positions, key_positions: as in `causal_mask`.
        window: int.

    Returns:
        Boolean tensor `(1 or batch, target, source)`.
    """
    distances = ops.abs(key_positions[:, None, :] - query_positions[:, :, None])
    return distances < window


def attention_mask(value, mask=None):
    """Brings a mask to the rank of attention scores.

    Args:
        value: `(batch, source, features)`, what is attended to.
        mask: `None` (everything may be attended), `(batch, source)` or `(batch, target, source)`.

    Returns:
        Boolean tensor `(batch, 1, source)` or `(batch, target, source)`.
    """
    if mask is None:
        return ops.ones_like(value[:, None, :, 0], dtype="bool")  # (B, 1, S)
    mask = ops.cast(mask, "bool")
    if (
        len(mask.shape) not in (2, 3)
        or not _fits(mask.shape[0], value.shape[0])
        or not _fits(mask.shape[-1], value.shape[1])
    ):
        raise ValueError(
            "attention_mask must have shape (batch, source) or (batch, target, source). "
            f"Received: attention_mask with shape {tuple(mask.shape)}, for a memory of shape "
            f"{tuple(value.shape)}."
        )
    mask = of_each(mask, value)
    return mask[:, None, :] if len(mask.shape) == 2 else mask  # (B, 1, S) or (B, T, S)


def of_each(mask, value):
    """A mask `(1, ...)` for all as one of each `(batch, ...)`, where the sizes are known.

    Args:
        mask: `(1 or batch, ...)`.
        value: `(batch, ...)`, what is attended to.
    """
    batch = value.shape[0]
    return mask if mask.shape[0] != 1 or batch in (None, 1) else ops.repeat(mask, batch, axis=0)


def _fits(size, other):
    """Whether two sizes are equal or one of them is 1, as far as they are known."""
    return size == other or bool({1, None} & {size, other})


def scores_of_mask(mask):
    """What is added to scores, float32 of the shape of the mask: 0 where may be attended."""
    return (1.0 - ops.cast(mask, "float32")) * MASKED_SCORE


def masked_softmax(scores, mask):
    """Softmax over the last axis in which masked positions get weight exactly 0.

    A row in which everything is masked gets only zeros, so its context is zero too. Computed in
    float32.

    Args:
        scores: `(batch, target, source)` floats.
        mask: boolean, broadcastable to `scores`.

    Returns:
        Weights of the shape and dtype of `scores`.
    """
    masked = ops.cast(scores, "float32") + scores_of_mask(mask)
    if scores.shape[-1] == 1:
        weights = ops.ones_like(masked)  # Keras warns of a softmax over an axis of size one.
    else:
        weights = ops.softmax(masked, axis=-1)
    return ops.cast(weights * ops.cast(mask, "float32"), scores.dtype)


def masked_mean(values, mask=None):
    """Mean of the positions that a mask marks.

    Args:
        values: `(batch, time, features)`.
        mask: boolean `(batch, time)`. Default `None`: all count.

    Returns:
        `(batch, features)`, zeros where no position counts. Sums are at least in float32: those of
        long sequences have no place in float16.
    """
    if mask is None:
        return ops.mean(values, axis=1)
    dtype = keras.backend.result_type(values.dtype, "float32")
    mask = ops.cast(mask, dtype)[:, :, None]  # (B, T, 1)
    counts = ops.maximum(ops.sum(mask, axis=1), 1.0)  # (B, 1)
    means = ops.sum(ops.cast(values, dtype) * mask, axis=1) / counts
    return ops.cast(means, values.dtype)


def both(mask, other):
    """What two masks allow, each of which may be `None`."""
    if mask is None or other is None:
        return other if mask is None else mask
    return ops.cast(mask, "bool") & ops.cast(other, "bool")
