"""What all pictures of attention ask of their weights, and how they show a token."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike

WORD_START = "\u2581"  # how SentencePiece writes the space before a word
VISIBLE_SPACE = "\u2423"


def checked_alignments(
    alignments: TensorLike, source_tokens: Sequence[Any], target_tokens: Sequence[Any]
) -> np.ndarray:
    """The weights as a float32 matrix `(target_length, source_length)`.

    Raises:
        ValueError: if they are not a matrix, are empty, do not fit the tokens or have numbers
            outside 0 to 1.
    """
    alignments = np.asarray(alignments, dtype="float32")
    expected = (len(target_tokens), len(source_tokens))
    if alignments.shape != expected or alignments.size == 0:
        raise ValueError(
            "`alignments` must have a row for each target token and a column for each source "
            "token, and at least one of each; choose one hypothesis and cut off the padding. "
            f"Received: alignments.shape={alignments.shape}, {expected[0]} target tokens and "
            f"{expected[1]} source tokens"
        )
    # Written so that NaN fails too. Sums of float16 weights may pass 1 by a little.
    if not np.all((alignments >= 0.0) & (alignments <= 1.001)):
        raise ValueError(
            "`alignments` must be attention weights from 0 to 1 (after the softmax). "
            f"Received: numbers from {alignments.min()} to {alignments.max()}"
        )
    return alignments


def label_of(token: Any) -> str:
    """A token as people read it; never empty."""
    text = token.replace(WORD_START, " ").replace("\n", "\\n").replace("\t", "\\t")
    return text.strip() or VISIBLE_SPACE
