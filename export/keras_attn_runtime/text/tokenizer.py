from abc import ABC, abstractmethod
from collections.abc import Iterable


class Tokenizer(ABC):
    """Base class of the tokenizers that an exported file can contain.

    Attributes:
        vocabulary_size: int, number of ids.
        unknown_token_id: int, id of text outside of the vocabulary.
    """

    vocabulary_size: int
    unknown_token_id: int

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without special ids; [] if normalization removes the text."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Converts ids to text. Ids of control tokens, such as the end token, are left out."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id."""

    def _known(self, ids: Iterable[int]) -> list[int]:
        # The model may have more ids than the tokenizer. These ids have no piece.
        return [id if 0 <= id < self.vocabulary_size else self.unknown_token_id for id in ids]
