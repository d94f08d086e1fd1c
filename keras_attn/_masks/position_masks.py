"""Masks from token ids and from positions."""

from keras import ops

from keras_attn._masks.joined_masks import both
from keras_attn._types import Tensor, TensorLike

END_OF_ROW = -1
"""Id after a row whose last token is the padding token. All negative ids are padding."""


def padding_mask(token_ids: TensorLike, pad_token_id: int = 0) -> Tensor:
    """Marks the tokens that are not padding.

    An id is padding if it is negative, or if it and all later ids in its row equal `pad_token_id`.
    The padding id counts as an ordinary token if another token or `END_OF_ROW` (-1) follows it.

    Args:
        token_ids: Int tensor of shape `(..., length)`, padded on the right.
        pad_token_id: Int, padding id. Defaults to `0`.

    Returns:
        Boolean tensor with the same shape, `False` at padding.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn.masks import padding_mask
    >>> mask = padding_mask(np.array([[5, 0, 6, 0], [5, 0, -1, 0]]))
    >>> ops.convert_to_numpy(mask).tolist()
    [[True, True, True, False], [True, True, False, False]]
    """
    ones = ops.ones_like(token_ids, dtype="int32")
    positions = ops.cumsum(ones, axis=-1, dtype="int32")  # (..., S), beginning at 1
    ends = ops.where(ops.not_equal(token_ids, pad_token_id), positions, 0)  # (..., S)
    last = ops.max(ends, axis=-1, keepdims=True, initial=0)  # (..., 1)
    return ops.logical_and(positions <= last, ops.less_equal(0, token_ids))


def embeddable_ids(token_ids: TensorLike) -> Tensor:
    """Replaces negative ids, which are padding and have no embedding, by 0."""
    return ops.maximum(token_ids, 0)


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Marks the keys at or before each query's position.

    Args:
        query_positions: Int tensor of shape `(1 or batch, target)`.
        key_positions: Int tensor of shape `(1 or batch, source)`.

    Returns:
        Boolean tensor of shape `(1 or batch, target, source)`.

    Example:

    >>> from keras import ops
    >>> from keras_attn.masks import causal_mask
    >>> positions = ops.arange(3)[None]
    >>> ops.convert_to_numpy(causal_mask(positions, positions)).astype(int).tolist()
    [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
    """
    return ops.less_equal(ops.expand_dims(key_positions, 1), ops.expand_dims(query_positions, 2))


def window_mask(query_positions: Tensor, key_positions: Tensor, window: int) -> Tensor:
    """Marks the keys fewer than `window` positions before or after each query.

    Args:
        query_positions: See `causal_mask`.
        key_positions: See `causal_mask`.
        window: Positive int, window size.

    Returns:
        Boolean tensor of shape `(1 or batch, target, source)`.

    Example:

    >>> from keras import ops
    >>> from keras_attn.masks import window_mask
    >>> positions = ops.arange(3)[None]
    >>> ops.convert_to_numpy(window_mask(positions, positions, window=2)).astype(int).tolist()
    [[[1, 1, 0], [1, 1, 1], [0, 1, 1]]]
    """
    distances = ops.abs(ops.expand_dims(key_positions, 1) - ops.expand_dims(query_positions, 2))
    return distances < window


def position_mask(
    query_positions: Tensor, key_positions: Tensor, causal: bool = False, window: int | None = None
) -> Tensor | None:
    """Combines the causal mask and the window mask.

    Args:
        query_positions: See `causal_mask`.
        key_positions: See `causal_mask`.
        causal: Bool, whether queries must not attend to later keys. Defaults to `False`.
        window: Int, see `window_mask`. Defaults to `None`: no window.

    Returns:
        Boolean tensor of shape `(1 or batch, target, source)`, or `None` if `causal` is `False` and
        `window` is `None`.
    """
    mask = causal_mask(query_positions, key_positions) if causal else None
    if window is not None:
        mask = both(mask, window_mask(query_positions, key_positions, window))
    return mask
