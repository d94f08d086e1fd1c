"""Masks for your own attention layers: which positions a query may attend to.

A mask is boolean, and `True` means "may be attended to".
"""

from keras_attn._masks.joined_masks import attention_mask
from keras_attn._masks.masked_scores import masked_mean, masked_softmax
from keras_attn._masks.position_masks import (
    causal_mask,
    padding_mask,
    window_mask,
)

__all__ = [
    "attention_mask",
    "causal_mask",
    "masked_mean",
    "masked_softmax",
    "padding_mask",
    "window_mask",
]
