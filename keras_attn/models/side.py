import dataclasses
from typing import Any, cast

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size


@dataclasses.dataclass(frozen=True)
class Side:
    """The ids of one side of a model, its source or its target.

    Args:
        vocabulary_size: int, every id is below it, or `None` if that is not known.
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

    vocabulary_size: int | None
    pad_token_id: int
    start_token_id: int | None
    end_token_id: int | None
    add_start: bool = False
    add_end: bool = False
    max_length: int | None = None

    @property
    def start(self) -> list[int]:
        """List of the ids that are put before those of a text: one or none."""
        return [cast(int, self.start_token_id)] if self.add_start else []

    @property
    def end(self) -> list[int]:
        """List of the ids that are put after those of a text: one or none."""
        return [cast(int, self.end_token_id)] if self.add_end else []

    @property
    def special_ids(self) -> list[int]:
        """Sorted list of the special ids that the side has."""
        ids = (self.pad_token_id, self.start_token_id, self.end_token_id)
        return sorted({id_ for id_ in ids if id_ is not None})

    def with_special_ids(self, ids: list[int]) -> list[int]:
        """The ids of a text, a list without special ones, as the model reads them."""
        return [*self.start, *ids, *self.end]


def source_side(encoder: Any, search: Any, tokenizer: Any = None) -> Side:
    """Returns the `Side` of the sources of a model.

    Args:
        encoder: layer. Its attributes `pad_token_id`, `start_token_id`, `end_token_id` and
            `max_source_length` are those of the source. If it has none, pad and end are those of
            the tokenizer, without a tokenizer the pad of the search and no end.
        search: the `Search` of the model.
        tokenizer: optional tokenizer of the source.

    Raises:
        ValueError: encoder and tokenizer have different end tokens, the encoder has no room for a
            piece, or a special id is outside of the vocabulary.
    """
    pad, end = (
        getattr(encoder, name, getattr(tokenizer, name, default))
        for name, default in (("pad_token_id", search.pad_token_id), ("end_token_id", None))
    )
    if tokenizer is not None and end not in (None, tokenizer.end_token_id):
        raise ValueError(
            "Expected an encoder and a source tokenizer with the same end_token_id. Received: "
            f"{end} of {type(encoder).__name__} and {tokenizer.end_token_id} of the tokenizer. "
            "Give the encoder the end_token_id that the sources of the training had, or None."
        )
    start = getattr(encoder, "start_token_id", None)
    add_start, add_end = start is not None, end is not None
    limit = getattr(encoder, "max_source_length", None)
    if limit is not None:
        limit -= add_start + add_end
        if limit < 1:
            raise ValueError(
                "Expected an encoder that can read a piece besides the special ones. Received: "
                f"max_source_length={encoder.max_source_length} with start_token_id={start} and "
                f"end_token_id={end}."
            )
    size = get_vocabulary_size(encoder)
    side = Side(size, cast(int, pad), start, end, add_start, add_end, limit)
    if size is not None and max(side.special_ids) >= size:
        raise ValueError(
            "Expected a source vocabulary that holds the special ids of the encoder. Received: "
            f"ids {side.special_ids} for {size} ids of the source."
        )
    return side
