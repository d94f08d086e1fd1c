"""Tokenizer interface, and special token ids."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from keras_attn_checks.number_types import is_integer


class SpecialTokenIds(NamedTuple):
    """Special token ids for a corpus's source or target.

    The default values are the ids that `SentencePieceTokenizer.train` uses.

    Args:
        pad: Int, id for padding on the right of rows. Defaults to `0`.
        start: Int, a decoder's first input. Defaults to `1`.
        end: Int, last id of every source sentence and every row of labels. Defaults to `2`.
        unknown: Int, id for text outside the vocabulary. Defaults to `3`.

    Example:

    >>> from keras_attn.text import SpecialTokenIds
    >>> SpecialTokenIds(pad=1, start=0).end
    2
    """

    pad: int = 0
    start: int = 1
    end: int = 2
    unknown: int = 3

    @classmethod
    def of(cls, tokenizer: "Tokenizer") -> "SpecialTokenIds":
        """Returns a tokenizer's special ids."""
        return cls(
            int(tokenizer.pad_token_id),
            int(tokenizer.start_token_id),
            int(tokenizer.end_token_id),
            int(tokenizer.unknown_token_id),
        )


@runtime_checkable
class Tokenizer(Protocol):
    """Interface of tokenizers, which convert texts to ids and ids to texts.

    A tokenizer class needs the following attributes and methods, but no base class. Exporting a
    vocabulary and sampling segmentations in each epoch require a `SentencePieceTokenizer`.

    Attributes:
        vocabulary_size: Int, number of ids. Every id is in `[0, vocabulary_size)`.
        pad_token_id: Int, id for padding on the right of rows, and label that losses ignore.
        start_token_id: Int, a decoder's first input.
        end_token_id: Int, last id of every source sentence and every row of labels.
        unknown_token_id: Int, id for text outside the vocabulary.

    Source and target tokenizers may use different special ids. Pass the source tokenizer's ids to
    the encoder (`pad_token_id`, `end_token_id`), and the target tokenizer's ids to the search. Pass
    the target tokenizer's padding id to the loss as `ignore_class`.

    Example:

    >>> from keras_attn.text import Tokenizer
    >>> class Letters:
    ...     vocabulary_size = 30
    ...     pad_token_id, start_token_id, end_token_id, unknown_token_id = 0, 1, 2, 3
    ...     def encode(self, texts):
    ...         return [[ord(letter) - ord("a") + 4 for letter in text] for text in texts]
    ...     def decode(self, ids):
    ...         return ["".join(chr(i - 4 + ord("a")) for i in row if i > 3) for row in ids]
    >>> isinstance(Letters(), Tokenizer)
    True
    """

    vocabulary_size: int
    pad_token_id: int
    start_token_id: int
    end_token_id: int
    unknown_token_id: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns one list of ids per text, without start, end and padding ids."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns one text per row of ids. Start, end and padding ids are removed."""
        ...


def tokenizer_options(tokenizer: object) -> dict[str, Any]:
    """Returns a tokenizer's options that its file does not contain, for JSON.

    Args:
        tokenizer: `SentencePieceTokenizer`, `HuggingFaceTokenizer`, or `None`.

    Returns:
        Dict from argument names to values. Default values are left out, except
        `parse_special_tokens` for a `HuggingFaceTokenizer`.
    """
    names = ("added_tokens", "space_token_id", "parse_special_tokens", "clean_up_spaces")
    options = {name: getattr(tokenizer, name, None) for name in names}
    is_json = getattr(tokenizer, "format", None) == "tokenizers"
    used = {name: value for name, value in options.items() if value not in (None, False, ())}
    if "added_tokens" in used:
        used["added_tokens"] = [token.entries() for token in used["added_tokens"]]
    return {"parse_special_tokens": False, **used} if is_json else used


def check_texts(texts: object) -> None:
    """Checks a list of texts for a tokenizer.

    Args:
        texts: List of strings.

    Raises:
        ValueError: If `texts` is a single text, or an element is not a string or contains a lone
            surrogate, which UTF-8 cannot encode.
    """
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"Expected a list of texts. Received: texts={texts[:40]!r}. Pass [text].")
    if not isinstance(texts, Sequence):  # do not consume an iterator
        return
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"Expected a list of strings. Received: texts[{row}]={text!r}.")
        if not is_unicode(text):
            raise ValueError(
                f"Expected texts that UTF-8 can encode. Received: texts[{row}]={ascii(text[:80])}, "
                "with a lone surrogate. Read files with encoding='utf-8', or replace it: "
                "text.encode('utf-8', 'replace').decode()."
            )


def rows_of_ids(ids: Any, vocabulary_size: int | None = None) -> list[list[int]]:
    """Returns rows of ids as lists of Python integers.

    Args:
        ids: List of lists of ids, or an int array with shape `(batch, length)`.
        vocabulary_size: Int. If given, all ids must be below it. Defaults to `None`.

    Raises:
        ValueError: If `ids` is a single row, or an element is not an integer in the vocabulary.
    """
    if isinstance(ids, str) or any(not hasattr(row, "__iter__") for row in ids):
        raise ValueError(f"Expected one row of ids per text. Received: ids={ids!r}. Pass [ids].")
    rows = []
    for row in ids:
        values = row.tolist() if hasattr(row, "tolist") else np.asarray(row).tolist()
        if any(isinstance(id_, bool) for id_ in row) or not all(map(is_integer, values)):
            raise ValueError(
                f"Expected rows of integers. Received: a row that begins with {values[:8]!r}. Pass "
                "ids."
            )
        largest = math.inf if vocabulary_size is None else vocabulary_size - 1
        if values and not 0 <= min(values) <= max(values) <= largest:
            raise ValueError(
                f"Expected ids from 0 to {largest}. Received: a row with ids from "
                f"{min(values)} to {max(values)}. Use the tokenizer of the model."
            )
        rows.append(values)
    return rows


def is_unicode(text: str) -> bool:
    """Returns whether a string contains no lone surrogate, which UTF-8 cannot encode."""
    return text.isascii() or text == text.encode("utf-8", "ignore").decode("utf-8")
