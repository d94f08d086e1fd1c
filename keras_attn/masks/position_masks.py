"""Masks made from token ids and from positions."""

from keras import ops

from keras_attn._types import Tensor, TensorLike
from keras_attn.masks.joined_masks import both


def padding_mask(token_ids: TensorLike, pad_token_id: int = 0) -> Tensor:
    """Marks the tokens that are not padding.

    Args:
        token_ids: integer tensor of any shape.
        pad_token_id: int, the id that fills short sequences.

    Returns:
        Boolean tensor of the same shape, True at real tokens.
    """
    return ops.not_equal(token_ids, pad_token_id)


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Marks the keys that are not in the future of a query.

    Args:
        query_positions: integer tensor `(1 or batch, target)`.
        key_positions: integer tensor `(1 or batch, source)`.

    Returns:
        Boolean tensor `(1 or batch, target, source)`.
    """
    return key_positions[:, None, :] <= query_positions[:, :, None]


def window_mask(query_positions: Tensor, key_positions: Tensor, window: int) -> Tensor:
    """Marks the keys that are fewer than `window` positions away, on either side of a query.

    Args:
        query_positions, key_positions: as in `causal_mask`.
        window: int.

    Returns:
        Boolean tensor `(1 or batch, target, source)`.
    """
    distances = ops.abs(key_positions[:, None, :] - query_positions[:, :, None])
    return distances < window


def position_mask(
    query_positions: Tensor, key_positions: Tensor, causal: bool = False, window: int | None = None
) -> Tensor | None:
    """Joins the causal mask and the mask of a window.

    Args:
        query_positions, key_positions: as in `causal_mask`.
        causal: bool, whether queries must not attend to later keys. Defaults to `False`.
        window: int, see `window_mask`. Defaults to `None`, no window.

    Returns:
        Boolean tensor `(1 or batch, target, source)`, or `None` without restrictions.
    """
    mask = causal_mask(query_positions, key_positions) if causal else None
    if window is not None:
        mask = both(mask, window_mask(query_positions, key_positions, window))
    return mask
