"""Checks of attention weights, and labels of tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike

WORD_START = "\u2581"  # symbol of SentencePiece for the space before a word
VISIBLE_SPACE = "\u2423"


def checked_alignments(
    alignments: TensorLike, source_tokens: Sequence[Any], target_tokens: Sequence[Any]
) -> np.ndarray:
    """Checks attention weights, and converts them to a float32 matrix.

    Args:
        alignments: Array-like of shape `(target_length, source_length)`.
        source_tokens: List of `source_length` strings.
        target_tokens: List of `target_length` strings.

    Raises:
        ValueError: If the weights are not a matrix, are empty, do not match the tokens, or are
            outside of [0, 1].
    """
    alignments = np.asarray(alignments, dtype="float32")
    expected = (len(target_tokens), len(source_tokens))
    if alignments.shape != expected or alignments.size == 0:
        raise ValueError(
            "Expected alignments with one row per target token and one column per source token, "
            f"and at least one of each. Received: alignments with shape {alignments.shape}, "
            f"{expected[0]} target tokens and {expected[1]} source tokens. Select one hypothesis "
            "and remove the padding."
        )
    # The condition is also false for NaN. Sums of float16 weights may slightly exceed 1.
    if not np.all((alignments >= 0.0) & (alignments <= 1.001)):
        raise ValueError(
            "Expected alignments to be attention weights in [0, 1], after the softmax. "
            f"Received: alignments from {alignments.min()} to {alignments.max()}."
        )
    return alignments


def label_of(token: Any) -> str:
    """Returns a readable, non-empty label of a token."""
    text = token.replace(WORD_START, " ").replace("\n", "\\n").replace("\t", "\\t")
    return text.strip() or VISIBLE_SPACE
