from keras import ops

from keras_attn import _masks as masks
from keras_attn._attention.blockwise_dot_product import blockwise_dot_product
from keras_attn._types import Mask, PositionBias, Tensor


def blockwise_attention(
    heads: tuple[Tensor, Tensor, Tensor],
    padding: Tensor | None = None,
    attention_mask: Mask | None = None,
    use_causal_mask: bool = False,
    sliding_window: int | None = None,
    position_bias: PositionBias | None = None,
    return_attention_scores: bool = False,
) -> Tensor:
    """Computes the attention of `MultiHeadAttention.call` in blocks, see `blockwise_dot_product`.

    Args:
        heads: Tuple of queries `(batch, heads, target, key_dim)`, keys `(batch, key_value_heads,
            source, key_dim)` and values `(batch, key_value_heads, source, value_dim)`.
        padding: Boolean tensor of shape `(batch, source)`; `True` marks keys that may be attended
            to. The caller combines all implicit masks into this mask. Defaults to `None`: all keys.
        attention_mask, use_causal_mask, sliding_window, position_bias, return_attention_scores: See
            `MultiHeadAttention`.

    Returns:
        Context of each head, of shape `(batch, heads, target, value_dim)`.

    Raises:
        ValueError: If an argument is not supported with `flash_attention=True`.
    """
    if return_attention_scores:
        raise ValueError(
            "Expected return_attention_scores=False with flash_attention=True, because blockwise "
            "attention does not store the scores. Received: return_attention_scores=True. "
            "Create the layer with flash_attention=None."
        )
    if attention_mask is not None and len(attention_mask.shape) != 2:
        raise ValueError(
            "Expected attention_mask of shape (batch, source) if flash_attention=True. "
            f"Received: attention_mask with shape {tuple(attention_mask.shape)}. Use "
            "use_causal_mask and sliding_window for restrictions that depend on the query."
        )
    if position_bias is not None and not callable(position_bias):
        raise ValueError(
            "Expected position_bias to be a layer if flash_attention=True. Received: position_bias "
            f"with shape {tuple(position_bias.shape)}. Pass the layer that computes this tensor."
        )
    if attention_mask is not None:
        padding = masks.both(padding, masks.boolean(attention_mask, "attention_mask"))
    return blockwise_dot_product(
        *heads,
        mask=None if padding is None else ops.cast(padding, "bool")[:, None, None, :],
        causal=use_causal_mask,
        sliding_window=sliding_window,
        bias=position_bias,
    )
