"""Converts texts or ids to the ids that the model reads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from keras_attn_runtime._array_types import Arrays, has_masked
from keras_attn_runtime._errors import InputError
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._text.source_words import SourceWord, words_of_pieces
from keras_attn_runtime._text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Source:
    """Model input for one sentence.

    Attributes:
        ids: list of ints, with the start and end token if the model reads them. Empty for a
            sentence without tokens; the model is not run on such a sentence.
        truncated: bool, whether the sentence was longer than the limit and was cut.
        prefix: list of ints, the first target ids in the translation.
        constraints: list of phrases that the translation must contain; a phrase is a list of
            alternatives, which are lists of target ids.
        seed: int, seed for sampling.
        arrays: dict from input names to arrays, for a model with other inputs than ids; `None` for
            ids.
        words: tuple of the source text's word at each position, `None` at special tokens. It can
            end before the last position. Empty unless the call replaces unknown tokens.
    """

    ids: list[int]
    truncated: bool
    prefix: list[int] = field(default_factory=list)
    constraints: list[list[list[int]]] = field(default_factory=list)
    seed: int = 0
    arrays: Arrays | None = None
    words: tuple[SourceWord | None, ...] = ()

    @property
    def is_empty(self) -> bool:
        """bool, whether there are neither ids nor arrays."""
        return not self.ids and self.arrays is None

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Tuple of array shapes, which must be equal in a batch; () for ids."""
        return () if self.arrays is None else tuple(array.shape for array in self.arrays.values())

    @property
    def content(self) -> list[int] | Arrays:
        """The list of ids, or the dict of arrays."""
        return self.ids if self.arrays is None else self.arrays


class SourceReader:
    """Checks sentences and converts them to `Source`s.

    Args:
        side: `Side`, the source.
        max_source_length: int, maximum number of tokens in a sentence, without start and end token.
        max_source_characters: int, maximum number of characters (code points) in a text.
        truncate: bool, whether sentences above a limit are cut. If False, such sentences raise
            `InputError`.
        row_length: int, fixed number of ids in a row. Default: any number.
    """

    def __init__(
        self,
        side: Side,
        max_source_length: int,
        max_source_characters: int,
        truncate: bool,
        row_length: int | None = None,
    ) -> None:
        self.side = side
        self.row_length = row_length
        self.max_source_length = max_source_length
        self.max_source_characters = max_source_characters
        self.truncate = truncate
        self._start, self._end = side.start, side.end

    def read_texts(
        self, texts: Iterable[object], tokenizer: Tokenizer, with_words: bool = False
    ) -> Iterator[Source]:
        """Yields each text's `Source`; raises `InputError` for an invalid text.

        Args:
            texts: iterable of strings.
            tokenizer: `Tokenizer` of the source.
            with_words: bool, whether the sources have `words`. Default: False.
        """
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(index, f"expected a string. Received: type={type(text).__name__}.")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(
                    index, f"expected text that can be written as UTF-8 ({error.reason})."
                ) from error
            source = self._source_of_text(index, text, tokenizer)
            if with_words:
                text = text[: self.max_source_characters]
                words = words_of_pieces(text, tokenizer.spans(text))[: self.max_source_length]
                source = replace(source, words=(*[None] * len(self._start), *words))
            yield source

    def read_ids(
        self, sentences: Iterable[npt.ArrayLike], are_padded: bool = False
    ) -> Iterator[Source]:
        """Yields the `Source` for each list of ids; raises `InputError` for an invalid list.

        Args:
            sentences: iterable of lists of ids.
            are_padded: bool, whether the lists are array rows. Any other list of prompt ids is not
                padded, so the padding id at its end is a token. Default: False.
        """
        has_padding = are_padded or not self.side.is_prompt
        for index, sentence in enumerate(sentences):
            ids = self._checked_ids(index, sentence)
            while has_padding and ids and ids[-1] == self.side.pad_token_id:
                ids.pop()
            if ids and ids[-1:] == self._end:
                ids.pop()
            num_start = len(self._start) if ids and ids[:1] == self._start else 0
            yield self._source(index, ids[num_start:])

    def _source_of_text(self, index: int, text: str, tokenizer: Tokenizer) -> Source:
        # SentencePiece takes quadratic time for some long texts and cannot be interrupted.
        is_too_long = len(text) > self.max_source_characters
        if is_too_long and not self.truncate:
            raise InputError(
                index,
                f"expected at most max_source_characters={self.max_source_characters} characters. "
                f"Received: {len(text)} characters. Split it, raise the limit or ask for "
                "truncation.",
            )
        ids = tokenizer.encode(text[: self.max_source_characters])
        return self._source(index, ids, truncated=is_too_long)

    def _source(self, index: int, ids: list[int], truncated: bool = False) -> Source:
        is_too_long = len(ids) > self.max_source_length
        if is_too_long and not self.truncate:
            raise InputError(
                index,
                f"expected at most max_source_length={self.max_source_length} tokens. "
                f"Received: {len(ids)} tokens. Split it, raise the limit or ask for truncation.",
            )
        ids = ids[: self.max_source_length]
        # A language model can continue a prompt without tokens, because the start token comes
        # first. Other models need at least one token.
        is_empty = not ids and (self._end or not self._start)
        truncated = truncated or is_too_long
        whole = [] if is_empty else [*self._start, *ids, *self._end]
        self._require_unmasked(index, whole)
        return Source(whole, truncated)

    def _require_unmasked(self, index: int, ids: list[int]) -> None:
        """Raises an `InputError` if the model would mask a token as padding."""
        padding = self.side.pad_token_id
        first = len(self._start)
        last = len(ids) - len(self._end)
        if not self.side.masks_only_trailing_padding and padding in ids[first:last]:
            raise InputError(
                index,
                f"expected padding (id {padding}) only at the end. Received: padding at position "
                f"{ids.index(padding, first)}. Export the model with a newer keras-attn, or with "
                "an encoder that masks only trailing padding.",
            )
        if len(ids) == self.row_length and self.side.needs_end_of_row(ids):
            raise InputError(
                index,
                f"expected at most {len(ids) - 1} ids if the last token has the padding id "
                f"{padding}. Received: {len(ids)} ids. Shorten the sentence.",
            )

    def _checked_ids(self, index: int, sentence: npt.ArrayLike) -> list[int]:
        if has_masked(sentence):
            raise InputError(
                index,
                "expected ids without masked elements. Received: type=MaskedArray. Pass "
                "ids.compressed().",
            )
        try:
            array = np.asarray(sentence)
        except (TypeError, ValueError) as error:
            raise InputError(index, f"expected a sequence of integer ids ({error}).") from error
        if array.ndim != 1:
            raise InputError(
                index, f"expected ids of rank 1, (source_length,). Received: shape={array.shape}."
            )
        if array.size == 0:
            return []
        if array.dtype.kind not in "iu":
            raise InputError(index, f"expected integer ids. Received: dtype={array.dtype}.")
        outside = (array < 0) | (array >= self.side.vocabulary_size)
        if outside.any():
            raise InputError(
                index,
                f"expected ids in [0, {self.side.vocabulary_size}), the source "
                f"vocabulary. Received: id {array[outside][0]} at position "
                f"{int(outside.argmax())}.",
            )
        return array.tolist()
