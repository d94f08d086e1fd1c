"""What every tokenizer of this package offers, and the ids that all of them share."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

PAD_TOKEN_ID = 0
START_TOKEN_ID = 1
END_TOKEN_ID = 2
UNKNOWN_TOKEN_ID = 3


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids and back: the interface that corpora and callbacks rely on.

    A class needs no base class to be a `Tokenizer`: these attributes and two methods are enough.
    Exports with a vocabulary, and pieces drawn anew in each epoch, need a `SentencePieceTokenizer`.

    Attributes:
        vocabulary_size: int, number of ids; every id lies in `[0, vocabulary_size)`.
        pad_token_id: int, always 0. Fills rows on the right, and marks labels that do not count.
        start_token_id: int, always 1. First input of a decoder.
        end_token_id: int, always 2. Ends every source sentence and every label row.
        unknown_token_id: int, always 3. Stands for text outside the vocabulary.

    Example:

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
        """Returns one list of ids per text, without start, end or padding ids."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns one text per row of ids; start, end and padding ids vanish."""
        ...
