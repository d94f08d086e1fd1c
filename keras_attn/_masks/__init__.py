"""Masks: creation, combination, and application to scores.

A mask is boolean, and `True` means "may be attended to". Attention masks have the shape `(batch,
source)`, which applies to all queries, or `(batch, target, source)`.

Explicit masks are call arguments that the user passes: `attention_mask` and `encoder_mask`. Keras
attaches implicit masks to tensors, for example to the output of `Embedding(mask_zero=True)`. If a
layer is called with one tensor, Keras passes the implicit mask as `mask`. If it is called with
several tensors, it passes one `<argument>_mask` per tensor. Keras wrappers only pass `mask`. A
position is unmasked if all masks for its sequence are `True`, see `join`.
"""

from keras_attn._masks.joined_masks import (
    attention_mask,
    boolean,
    both,
    broadcast_batch,
    join,
    refuse_single_mask,
)
from keras_attn._masks.masked_scores import (
    MASKED_SCORE,
    apply_mask,
    finite_scores,
    masked_mean,
    masked_softmax,
    scores_of_mask,
    wide_dtype,
)
from keras_attn._masks.position_masks import (
    END_OF_ROW,
    causal_mask,
    embeddable_ids,
    padding_mask,
    position_mask,
    window_mask,
)

__all__ = [
    "END_OF_ROW",
    "MASKED_SCORE",
    "apply_mask",
    "attention_mask",
    "boolean",
    "both",
    "broadcast_batch",
    "causal_mask",
    "embeddable_ids",
    "finite_scores",
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
