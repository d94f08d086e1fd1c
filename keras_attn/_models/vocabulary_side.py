import dataclasses
from typing import cast

import keras

from keras_attn._encoders.prompt_input import PromptInput
from keras_attn._layer.get_vocabulary_size import get_vocabulary_size
from keras_attn._masks import END_OF_ROW
from keras_attn._search.search import Search
from keras_attn._types import TokenizerLike


@dataclasses.dataclass(frozen=True)
class Side:
    """Special token ids and maximum length of a model's source or target.

    Args:
        vocabulary_size: Int, number of ids, or `None` if it is unknown.
        pad_token_id: Int, id that pads shorter rows on the right.
        start_token_id: Int, or `None` if there is no start token. The start token of a target is
            the decoder's first input.
        end_token_id: Int, or `None` if there is no end token.
        add_start: Bool, whether the start token is inserted before a text's ids.
        add_end: Bool, whether the end token is appended to a text's ids.
        max_length: Int, maximum number of ids in a text, not counting the start and end token.
            `None` for no limit.
        masks_only_trailing_padding: Bool, encoder attribute, see `TransformerEncoder`.
            Defaults to `False`: the padding id must not occur in a text.
        is_prompt: Bool, whether the sources are prompts of a language model, which may end with any
            token, also with the padding id. Defaults to `False`.

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
    masks_only_trailing_padding: bool = False
    is_prompt: bool = False

    @property
    def start(self) -> list[int]:
        """List of the ids before a text's ids: the start token or nothing."""
        return [cast(int, self.start_token_id)] if self.add_start else []

    @property
    def end(self) -> list[int]:
        """List of the ids after a text's ids: the end token or nothing."""
        return [cast(int, self.end_token_id)] if self.add_end else []

    @property
    def max_row_length(self) -> int | None:
        """Int, maximum number of ids with the start and end token, or `None` for no limit."""
        num_special = len(self.start) + len(self.end)
        return None if self.max_length is None else self.max_length + num_special

    @property
    def special_ids(self) -> list[int]:
        """Sorted list of the special ids."""
        ids = (self.pad_token_id, self.start_token_id, self.end_token_id)
        return sorted({id_ for id_ in ids if id_ is not None})

    def with_special_ids(self, ids: list[int]) -> list[int]:
        """Adds the start token and the end token, if any, to a text's ids."""
        return [*self.start, *ids, *self.end]

    def without_padding(self, ids: list[int]) -> list[int]:
        """Removes padding from the end of a row's ids."""
        length = len(ids)
        while length and ids[length - 1] == self.pad_token_id:
            length -= 1
        return ids[:length]

    def ended_row(self, ids: list[int]) -> list[int]:
        """Appends `END_OF_ROW` to ids whose last token would otherwise be padding.

        The padding that follows the ids in a batch is then padding, and all ids are tokens.

        Raises:
            ValueError: If the ids contain the padding id, and the encoder masks it everywhere.
        """
        if self.end_token_id == self.pad_token_id:
            return ids  # the encoder was trained with masked end tokens
        if self.pad_token_id in ids and not self.masks_only_trailing_padding:
            raise ValueError(
                "Expected sources without the padding id, which the encoder masks. Received: "
                f"source={ids}, with pad_token_id={self.pad_token_id} at position "
                f"{ids.index(self.pad_token_id)}. Remove it, or set masks_only_trailing_padding "
                "in an encoder that masks padding with keras_attn.masks.padding_mask."
            )
        return [*ids, END_OF_ROW] if ids[-1:] == [self.pad_token_id] else ids


def source_side(
    encoder: keras.layers.Layer, search: Search, tokenizer: TokenizerLike | None = None
) -> Side:
    """Returns the `Side` that describes a model's source.

    Args:
        encoder: Layer. Its attributes `pad_token_id`, `start_token_id`, `end_token_id`,
            `max_source_length` and `masks_only_trailing_padding` describe the source. If
            `pad_token_id` or `end_token_id` is missing, the tokenizer's attribute is used. Without
            a tokenizer, the source has the search's `pad_token_id`, and no end token. A language
            model's learned positions limit the prompt length.
        search: The model's `Search`.
        tokenizer: Source tokenizer, or `None`.

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
    reads_prompts = isinstance(encoder, PromptInput)
    limit = getattr(encoder, "max_source_length", None)
    if reads_prompts:
        limit = search.decoder.max_prompt_length
    if limit is not None:
        num_positions = limit
        limit -= add_start + add_end
        if limit < 1:
            raise ValueError(
                "Expected an encoder that can read at least one piece and the special tokens. "
                f"Received: max_source_length={num_positions}, start_token_id={start}, "
                f"end_token_id={end}. Create the encoder with a larger maximum length."
            )
    size = get_vocabulary_size(encoder)
    side = Side(
        size,
        cast(int, pad),
        start,
        end,
        add_start,
        add_end,
        limit,
        masks_only_trailing_padding=getattr(encoder, "masks_only_trailing_padding", False),
        is_prompt=reads_prompts,
    )
    if size is not None and max(side.special_ids) >= size:
        raise ValueError(
            f"Expected special ids of the source below the size of its vocabulary, {size}. "
            f"Received: special ids {side.special_ids}. Create the encoder with ids of the "
            "vocabulary, or with a larger embedding."
        )
    return side


def id_range(vocabulary_size: int | None) -> str:
    """Returns the range of the ids of a vocabulary in words, for errors."""
    return "of at least 0" if vocabulary_size is None else f"from 0 to {vocabulary_size - 1}"
