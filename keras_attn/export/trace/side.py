import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Side:
    """The ids of one side of an exported model, its source or its target.

    Args:
        vocabulary_size: int, every id is below it.
        pad_token_id: int, fills short rows on the right.
        start_token_id: int, or `None` if the side has no start token. Of a target: the first input
            of the decoder.
        end_token_id: int, or `None` if the side has no end token.
        add_start: bool, whether the start token is put before the ids of a text.
        add_end: bool, whether the end token is put after the ids of a text.
        max_length: int, most ids of a text without the two, or `None` for no limit.

    Example:

    >>> side = Side(20, 0, start_token_id=None, end_token_id=2, add_end=True)
    >>> side.with_special_ids([5, 6])
    [5, 6, 2]
    """

    vocabulary_size: int
    pad_token_id: int
    start_token_id: int | None
    end_token_id: int | None
    add_start: bool = False
    add_end: bool = False
    max_length: int | None = None

    @property
    def start(self) -> Any:
        """List of the ids that are put before those of a text: one or none."""
        return [self.start_token_id] if self.add_start else []

    @property
    def end(self) -> Any:
        """List of the ids that are put after those of a text: one or none."""
        return [self.end_token_id] if self.add_end else []

    @property
    def special_ids(self) -> Any:
        """Sorted list of the special ids that the side has."""
        ids = {self.pad_token_id, self.start_token_id, self.end_token_id}
        return sorted(ids - {None})

    def with_special_ids(self, ids: Any) -> Any:
        """The ids of a text, a list without special ones, as the model reads them."""
        return [*self.start, *ids, *self.end]
