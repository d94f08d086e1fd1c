import dataclasses
from typing import Any, cast

from keras_attn._layer.get_vocabulary_size import get_vocabulary_size


@dataclasses.dataclass(frozen=True)
class Side:
    """Special token ids and maximum length of the source or the target of a model.

    Args:
        vocabulary_size: Int, number of ids, or `None` if it is unknown.
        pad_token_id: Int, id that pads shorter rows on the right.
        start_token_id: Int, or `None` if there is no start token. The start token of a target is
            the first input of the decoder.
        end_token_id: Int, or `None` if there is no end token.
        add_start: Bool, whether the start token is inserted before the ids of a text.
        add_end: Bool, whether the end token is appended to the ids of a text.
        max_length: Int, maximum number of ids of a text, not counting the start and end token.
            `None` for no limit.

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
        """List of the ids before the ids of a text: the start token or nothing."""
        return [cast(int, self.start_token_id)] if self.add_start else []

    @property
    def end(self) -> list[int]:
        """List of the ids after the ids of a text: the end token or nothing."""
        return [cast(int, self.end_token_id)] if self.add_end else []

    @property
    def special_ids(self) -> list[int]:
        """Sorted list of the special ids."""
        ids = (self.pad_token_id, self.start_token_id, self.end_token_id)
        return sorted({id_ for id_ in ids if id_ is not None})

    def with_special_ids(self, ids: list[int]) -> list[int]:
        """Adds the start token and the end token, if any, to the ids of a text."""
        return [*self.start, *ids, *self.end]


def source_side(encoder: Any, search: Any, tokenizer: Any = None) -> Side:
    """Returns the `Side` that describes the source of a model.

    Args:
        encoder: Layer. Its attributes `pad_token_id`, `start_token_id`, `end_token_id` and
            `max_source_length` describe the source. If `pad_token_id` or `end_token_id` is missing,
            the attribute of the tokenizer is used. Without a tokenizer, the source has the
            `pad_token_id` of the search, and no end token.
        search: `Search` of the model.
        tokenizer: Tokenizer of the source, or `None`.

    Raises:
        ValueError: If encoder and tokenizer have different end tokens, `max_source_length` leaves
            no room for a token of the text, or a special id is outside of the vocabulary.
    """
    pad, end = (
        getattr(encoder, name, getattr(tokenizer, name, default))
        for name, default in (("pad_token_id", search.pad_token_id), ("end_token_id", None))
    )
    if tokenizer is not None and end not in (None, tokenizer.end_token_id):
        raise ValueError(
            "Expected an encoder and a source tokenizer with the same end_token_id. Received: "
            f"{type(encoder).__name__} with end_token_id={end}, tokenizer with end_token_id="
            f"{tokenizer.end_token_id}. Create the encoder with the end_token_id of the sources in "
            "the training data, or None."
        )
    start = getattr(encoder, "start_token_id", None)
    add_start, add_end = start is not None, end is not None
    limit = getattr(encoder, "max_source_length", None)
    if limit is not None:
        limit -= add_start + add_end
        if limit < 1:
            raise ValueError(
                "Expected an encoder that can read at least one piece and the special tokens. "
                f"Received: max_source_length={encoder.max_source_length}, start_token_id={start}, "
                f"end_token_id={end}. Create the encoder with a larger maximum length."
            )
    size = get_vocabulary_size(encoder)
    side = Side(size, cast(int, pad), start, end, add_start, add_end, limit)
    if size is not None and max(side.special_ids) >= size:
        raise ValueError(
            f"Expected special ids of the source below the size of its vocabulary, {size}. "
            f"Received: special ids {side.special_ids}. Create the encoder with ids of the "
            "vocabulary, or with a larger embedding."
        )
    return side
