"""The interface of tokenizers, and the special token ids."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

PAD_TOKEN_ID = 0
START_TOKEN_ID = 1
END_TOKEN_ID = 2
UNKNOWN_TOKEN_ID = 3


@runtime_checkable
class Tokenizer(Protocol):
    """Interface of tokenizers, which convert texts to ids and back.

    A class needs these attributes and methods, but no base class. Exporting a vocabulary, and
    sampling segmentations in each epoch, require a `SentencePieceTokenizer`.

    Attributes:
        vocabulary_size: Int, number of ids. Every id is in `[0, vocabulary_size)`.
        pad_token_id: Int, always 0. It pads rows on the right and marks labels that do not count.
        start_token_id: Int, always 1. First input of a decoder.
        end_token_id: Int, always 2. It ends every source sentence and every row of labels.
        unknown_token_id: Int, always 3. It represents text outside of the vocabulary.

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
        """Returns one list of ids per text, without start, end and padding ids."""
        ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Returns one text per row of ids. Start, end and padding ids are removed."""
        ...
