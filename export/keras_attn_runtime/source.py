"""Reads the texts or ids of a caller as ids of the model."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from keras_attn_runtime.array_types import Arrays
from keras_attn_runtime.errors import SentenceError
from keras_attn_runtime.file_format import Side
from keras_attn_runtime.tokenizer import Tokenizer


@dataclass(frozen=True)
class Source:
    """One sentence as the model reads it.

    Attributes:
        ids: list of ints, with the start and end token if the model reads them; [] for a sentence
            without tokens, for which the model is not run.
        truncated: bool, whether the sentence was longer than the limit and was cut.
        prefix: list of ints, target ids that the translation begins with.
        seed: int, of a file that draws tokens at random.
        arrays: dict of arrays by the names of the inputs, for a model whose inputs are not ids;
            `None` for ids.
    """

    ids: list[int]
    truncated: bool
    prefix: list[int] = field(default_factory=list)
    seed: int = 0
    arrays: Arrays | None = None

    @property
    def is_empty(self) -> bool:
        """bool, whether there is nothing to read."""
        return not self.ids and self.arrays is None

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Tuple of the shapes of the arrays, which must be equal in a batch; () for ids."""
        return () if self.arrays is None else tuple(each.shape for each in self.arrays.values())

    @property
    def content(self) -> list[int] | Arrays:
        """The list of ids, or the dict of arrays."""
        return self.ids if self.arrays is None else self.arrays


class SourceReader:
    """Checks sentences and turns them into `Source`s.

    Args:
        side: `Side` of the source.
        max_source_length: int, limit of tokens of a sentence, start and end token not counted.
        max_source_characters: int, limit of characters (code points) of a text.
        truncate: bool, whether longer sentences are cut instead of refused.
    """

    def __init__(
        self, side: Side, max_source_length: int, max_source_characters: int, truncate: bool
    ) -> None:
        self.side = side
        self.max_source_length = max_source_length
        self.max_source_characters = max_source_characters
        self.truncate = truncate
        self._start, self._end = side.start, side.end

    def read_texts(self, texts: Iterable[object], tokenizer: Tokenizer) -> Iterator[Source]:
        """Yields the `Source` of each text; raises `SentenceError` when one cannot be read."""
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise SentenceError(
                    index, f"expected a string. Received: type={type(text).__name__}."
                )
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise SentenceError(
                    index, f"expected text that can be written as UTF-8 ({error.reason})."
                ) from error
            yield self._source_of_text(index, text, tokenizer)

    def read_ids(self, sentences: Iterable[npt.ArrayLike]) -> Iterator[Source]:
        """Yields the `Source` of each sequence of ids; raises `SentenceError` on an invalid one."""
        for index, sentence in enumerate(sentences):
            ids = self._checked_ids(index, sentence)
            while ids and ids[-1] == self.side.pad_token_id:
                ids.pop()
            if ids and ids[-1:] == self._end:
                ids.pop()
            num_start = len(self._start) if ids and ids[:1] == self._start else 0
            if self.side.pad_token_id in ids[num_start:]:
                position = ids.index(self.side.pad_token_id, num_start)
                raise SentenceError(
                    index,
                    f"expected padding (id {self.side.pad_token_id}) only at the end. "
                    f"Received: padding at position {position}.",
                )
            yield self._source(index, ids[num_start:])

    def _source_of_text(self, index: int, text: str, tokenizer: Tokenizer) -> Source:
        # SentencePiece takes quadratic time for some long texts, and nothing can interrupt it.
        is_too_long = len(text) > self.max_source_characters
        if is_too_long and not self.truncate:
            raise SentenceError(
                index,
                f"expected at most max_source_characters={self.max_source_characters} characters. "
                "Received: a longer text. Split it, raise the limit or ask for truncation.",
            )
        ids = tokenizer.encode(text[: self.max_source_characters])
        return self._source(index, ids, truncated=is_too_long)

    def _source(self, index: int, ids: list[int], truncated: bool = False) -> Source:
        is_too_long = len(ids) > self.max_source_length
        if is_too_long and not self.truncate:
            raise SentenceError(
                index,
                f"expected at most max_source_length={self.max_source_length} tokens. "
                f"Received: {len(ids)} tokens. Split it, raise the limit or ask for truncation.",
            )
        ids = ids[: self.max_source_length]
        # A language model can go on from its start token alone; another model has nothing to read.
        is_empty = not ids and (self._end or not self._start)
        truncated = truncated or is_too_long
        return Source([] if is_empty else [*self._start, *ids, *self._end], truncated)

    def _checked_ids(self, index: int, sentence: npt.ArrayLike) -> list[int]:
        try:
            array = np.asarray(sentence)
        except (TypeError, ValueError) as error:
            raise SentenceError(index, f"expected a sequence of integer ids ({error}).") from error
        if array.ndim != 1:
            raise SentenceError(
                index, f"expected ids of rank 1, (source_length,). Received: shape={array.shape}."
            )
        if array.size == 0:
            return []
        if array.dtype.kind not in "iu":
            raise SentenceError(index, f"expected integer ids. Received: dtype={array.dtype}.")
        outside = (array < 0) | (array >= self.side.vocabulary_size)
        if outside.any():
            raise SentenceError(
                index,
                f"expected ids in [0, {self.side.vocabulary_size}), the source "
                f"vocabulary. Received: id {array[outside][0]} at position "
                f"{int(outside.argmax())}.",
            )
        return array.tolist()
