"""Tokens that begin a word."""

import unicodedata

import numpy as np

from keras_attn._types import TokenizerLike

SCRIPTS_WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai and Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0xA4CF),  # Chinese, Japanese and Yi
    (0xF900, 0xFAFF),  # Chinese
    (0x20000, 0x3FFFF),  # Chinese
)
"""Ranges of code points. In texts of these scripts, a word can begin at each character."""


def word_starts(tokenizer: TokenizerLike, vocabulary_size: int | None = None) -> np.ndarray:
    """Returns whether each token begins a word, for the argument `word_starts` of a search.

    A token begins a word if its text after a letter begins with a space, with punctuation, or with
    a character of a script without spaces, or if it has no text, as an end token. Only tokens that
    continue a word, such as `ing`, do not.

    Args:
        tokenizer: Tokenizer, such as `SentencePieceTokenizer`.
        vocabulary_size: Int, size of the result. Ids that the tokenizer lacks begin a word.
            Defaults to `None`: the vocabulary size of the tokenizer.

    Returns:
        Boolean array of shape `(V,)`.

    Example:

    ```python
    results = search(**encoder(source_ids), constraint_ids=ids, word_starts=word_starts(tokenizer))
    ```
    """
    count = tokenizer.vocabulary_size
    alone = tokenizer.decode([[token_id] for token_id in range(count)])
    letters = [token_id for token_id, text in enumerate(alone) if text.strip().isalpha()]
    starts = np.ones(max(count, vocabulary_size or count), "bool")
    if not letters:
        return starts
    letter, before = letters[0], alone[letters[0]]
    texts = tokenizer.decode([[letter, token_id] for token_id in range(count)])
    for token_id, text in enumerate(texts):
        starts[token_id] = not text.startswith(before) or _begins_word(text[len(before) :])
    return starts[:vocabulary_size]


def is_without_spaces(character: str) -> bool:
    """Returns whether a word can begin at a character without a space before it."""
    return any(first <= ord(character) <= last for first, last in SCRIPTS_WITHOUT_SPACES)


def _begins_word(text: str) -> bool:
    """Returns whether a text that follows a letter begins a word."""
    if not text:
        return True
    first = text[0]
    if first == "\N{REPLACEMENT CHARACTER}":
        return False  # part of a character
    if is_without_spaces(first):
        return True
    return not (first.isalnum() or unicodedata.category(first).startswith("M"))
