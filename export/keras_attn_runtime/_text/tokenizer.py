from abc import ABC, abstractmethod
from collections.abc import Iterable


class Tokenizer(ABC):
    """Base class for tokenizers in exported files.

    Attributes:
        vocabulary_size: int, number of ids.
        unknown_token_id: int, id for text outside the vocabulary.
        has_unknown_token: bool, whether the tokenizer has such an id. Otherwise it encodes every
            text, and `unknown_token_id` is the padding id.
    """

    vocabulary_size: int
    unknown_token_id: int
    has_unknown_token: bool = True

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns a text's ids, without special ids; [] if normalization removes the text."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Converts ids to text, without control tokens such as the end token."""

    @abstractmethod
    def spans(self, text: str) -> list[tuple[int, int]]:
        """Returns the first position in the text, and the position after the last, of each id.

        The positions are those in the text before normalization. A span can be empty.
        """

    @abstractmethod
    def decode_with_mark(self, ids: Iterable[int], mark: str) -> str:
        """Converts ids to text like `decode`, with `mark` in place of each unknown token."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns each id's piece."""

    def _known(self, ids: Iterable[int]) -> list[int]:
        # The model may use more ids than the tokenizer. They have no piece.
        return [id if 0 <= id < self.vocabulary_size else self.unknown_token_id for id in ids]
