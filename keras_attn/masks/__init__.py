"""Masks: creation, combination, and application to scores.

A mask is boolean, and `True` means "may be attended to". Attention masks have shape `(batch,
source)`, one row for every query, or `(batch, target, source)`.

Explicit masks are call arguments that the user passes: `attention_mask` and `encoder_mask`.
Implicit masks are attached to tensors by Keras, for instance to the output of
`Embedding(mask_zero=True)`. Keras passes them to a layer as `mask`, if the layer is called with one
tensor, or as `<argument>_mask`, if it is called with several. Wrappers of Keras pass `mask` only. A
position counts if all masks of its sequence are `True`, see `join`.
"""

from keras_attn.masks.joined_masks import (
    attention_mask,
    boolean,
    both,
    broadcast_batch,
    join,
    refuse_single_mask,
)
from keras_attn.masks.masked_scores import (
    MASKED_SCORE,
    masked_mean,
    masked_softmax,
    scores_of_mask,
    wide_dtype,
)
from keras_attn.masks.position_masks import causal_mask, padding_mask, position_mask, window_mask

__all__ = [
    "MASKED_SCORE",
    "attention_mask",
    "boolean",
    "both",
    "broadcast_batch",
    "causal_mask",
    "join",
    "masked_mean",
    "masked_softmax",
    "padding_mask",
    "position_mask",
    "refuse_single_mask",
    "scores_of_mask",
    "wide_dtype",
    "window_mask",
]
