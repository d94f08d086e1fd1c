"""Attention weight checks, and token labels."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn._types import TensorLike

WORD_START = "\u2581"  # SentencePiece symbol for the space before a word
VISIBLE_SPACE = "\u2423"

LONGEST_LABEL = 40
"""Maximum number of characters in a label. Longer tokens are shortened in the middle."""

# `</s>`, `<|im_end|>` and `[SEP]`. Bytes (`<0xC3>`) and `<unk>` are parts of words.
_SPECIAL_TOKEN = re.compile(r"<(?!0x[0-9A-F]{2}>|unk>)[^<>\s]+>|\[[A-Z]+\]")


def checked_alignments(
    alignments: TensorLike, source_tokens: Sequence[Any], target_tokens: Sequence[Any]
) -> np.ndarray:
    """Checks attention weights, and converts them to a float32 matrix.

    Args:
        alignments: Array-like with shape `(target_length, source_length)`, or `(source_length,)`
            for one target token.
        source_tokens: List of `source_length` strings.
        target_tokens: List of `target_length` strings.

    Raises:
        ValueError: If the weights are not a matrix, are empty, are masked, do not match the tokens,
            or are outside [0, 1].
    """
    alignments = weights_array("alignments", alignments)
    if alignments.ndim == 1 and len(target_tokens) == 1:
        alignments = alignments[None]
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


def weights_array(name: str, weights: Any) -> np.ndarray:
    """Converts attention weights to float32, and rejects masked cells."""
    parts = weights if isinstance(weights, (list, tuple)) else [weights]
    if any(map(np.ma.is_masked, parts)):
        raise ValueError(
            f"Expected {name} without masked cells. Received: {name} as a masked array. Replace "
            f"the masked cells: {name}.filled(0.0)."
        )
    return np.asarray(weights, dtype="float32")


def label_of(token: Any) -> str:
    """Returns a readable, non-empty label for a token."""
    text = visible_text(token.replace(WORD_START, " ")).replace("\n", "\\n").strip()
    return text or VISIBLE_SPACE


def short_label_of(token: Any) -> str:
    """Returns a label for a picture, with at most `LONGEST_LABEL` characters."""
    return shortened(label_of(token), LONGEST_LABEL)


def shortened(text: str, most: int) -> str:
    """Replaces characters in the middle of a text by `…` if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    end = max(most // 3, 1)
    return f"{text[: max(most - end - 1, 1)]}…{text[-end:]}"


def visible_text(text: str) -> str:
    """Escapes control characters except line breaks, which image files cannot contain.

    Lone surrogates and noncharacters become U+FFFD.
    """
    return "".join(map(_visible, text))


def _visible(character):
    if character == "\n" or character.isprintable():
        return character
    if unicodedata.category(character) == "Cc":
        return character.encode("unicode_escape").decode()
    is_noncharacter = ord(character) & 0xFFFE == 0xFFFE or "\ufdd0" <= character <= "\ufdef"
    if is_noncharacter or unicodedata.category(character) == "Cs":
        return "\ufffd"
    return character


def word_ranges(tokens: Sequence[str]) -> list[slice]:
    """Returns each word's tokens.

    A word begins with the SentencePiece symbol `▁`. A special token such as `</s>` is a word. If no
    token contains the symbol, every token is a word.
    """
    if not any(token.startswith(WORD_START) for token in tokens):
        return [slice(number, number + 1) for number in range(len(tokens))]
    is_special = [_SPECIAL_TOKEN.fullmatch(token) is not None for token in tokens]
    starts = [
        number
        for number, token in enumerate(tokens)
        if number == 0
        or token.startswith(WORD_START)
        or is_special[number]
        or is_special[number - 1]
    ]
    return [slice(*pair) for pair in zip(starts, [*starts[1:], len(tokens)], strict=True)]
