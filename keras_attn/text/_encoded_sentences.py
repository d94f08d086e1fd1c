"""Sentences of token ids, in memory or in memory-mapped files."""

import numbers
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn.text._tokenizer import SpecialTokenIds

_IDS_PER_BLOCK = 2**20
"""Number of ids to check at a time, which limits the memory needed."""

_LARGEST = 2**31 - 1
"""Largest id, because files and batches contain int32."""


class EncodedSentences:
    """Stores sentences of token ids in two arrays with random access.

    Sentence `i` is `ids[offsets[i]:offsets[i + 1]]`, without start, end and padding ids. `load`
    memory-maps both arrays, so the corpus may be larger than main memory.

    A sentence may contain neither the padding id, which a model would ignore, nor the end id, which
    would end the sentence.

    Args:
        ids: Int32 array with shape `(num_tokens,)`, ids of at least 0.
        offsets: Int64 array with shape `(num_sentences + 1,)`. The first offset is 0, the last is
            `num_tokens`, and the offsets do not decrease.
        special_token_ids: The tokenizer's `SpecialTokenIds`. Defaults to `None`: the ids that
            `SentencePieceTokenizer.train` uses.

    Raises:
        ValueError: If `offsets` decrease, or do not start at 0 and end at the number of ids; or if
            an id is negative, the padding id or the end id.

    Example:

    >>> import numpy as np
    >>> from keras_attn.text import EncodedSentences
    >>> sentences = EncodedSentences.from_lists([[7, 8, 9], [5]])
    >>> sentences[-1]
    array([5], dtype=int32)
    >>> sentences.padded(np.array([0, 1]), width=5, start_token_id=1, end_token_id=2)
    array([[1, 7, 8, 9, 2],
           [1, 5, 2, 0, 0]], dtype=int32)
    """

    def __init__(
        self,
        ids: np.ndarray,
        offsets: np.ndarray,
        special_token_ids: SpecialTokenIds | None = None,
    ) -> None:
        self.special_token_ids = special_token_ids or SpecialTokenIds()
        # Speed: convert np.memmap to a plain array, because each slice of a memmap creates an
        # additional Python object.
        self.ids = np.asarray(ids)
        self.offsets = np.asarray(offsets)
        self._check_offsets()
        self._check_ids()

    def _check_offsets(self) -> None:
        offsets = self.offsets
        for name, array in (("ids", self.ids), ("offsets", offsets)):
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                raise ValueError(
                    f"Expected {name} to be a one-dimensional array of integers. Received: {name} "
                    f"of shape {array.shape} and dtype {array.dtype}."
                )
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(self.ids):
            raise ValueError(
                "Expected offsets from 0 to the number of ids. Received: "
                f"offsets={offsets!r}, len(ids)={len(self.ids)}."
            )
        is_decreasing = offsets[1:] < offsets[:-1]  # (N,)
        if is_decreasing.any():
            row = int(is_decreasing.argmax())
            raise ValueError(
                "Expected offsets that do not decrease. Received: "
                f"offsets[{row}]={offsets[row]}, offsets[{row + 1}]={offsets[row + 1]}."
            )

    def _check_ids(self) -> None:
        special = self.special_token_ids
        for start in range(0, len(self.ids), _IDS_PER_BLOCK):
            block = self.ids[start : start + _IDS_PER_BLOCK]
            is_wrong = (block < 0) | (block == special.pad) | (block == special.end)
            if is_wrong.any():
                position = start + int(is_wrong.argmax())
                row = int(np.searchsorted(self.offsets, position, side="right")) - 1
                raise ValueError(
                    "Expected sentences of ids of at least 0, without the padding id "
                    f"{special.pad} and the end id {special.end}. Received: id "
                    f"{self.ids[position]} at position {position - self.offsets[row]} of sentence "
                    f"{row}. Remove the special ids, and pass the special_token_ids of the "
                    "tokenizer."
                )

    @classmethod
    def from_lists(
        cls,
        sentences: Sequence[Sequence[int]],
        special_token_ids: SpecialTokenIds | None = None,
    ) -> "EncodedSentences":
        """Creates `EncodedSentences` in memory from lists of ids.

        Args:
            sentences: List of lists of ids.
            special_token_ids: The tokenizer's `SpecialTokenIds`. Defaults to `None`.

        Raises:
            ValueError: If an id is not an int in `[0, 2**31)`, or is the padding or end id.
        """
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        # Without empty lists, because NumPy converts them to float arrays.
        rows = [np.asarray(sentence) for sentence in sentences if len(sentence)]
        ids = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        if len(ids) and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() > _LARGEST):
            raise ValueError(
                f"Expected ids of type int in [0, {_LARGEST}]. Received: ids of dtype {ids.dtype} "
                f"from {ids.min()} to {ids.max()}."
            )
        return cls(ids.astype(np.int32), offsets, special_token_ids)

    @classmethod
    def load(
        cls,
        path: str | PathLike,
        name: str,
        special_token_ids: SpecialTokenIds | None = None,
    ) -> "EncodedSentences":
        """Memory-maps the files written by `EncodedSentencesWriter`.

        Args:
            path: Directory path.
            name: String, name of the sentences, such as `"source"`.
            special_token_ids: The tokenizer's `SpecialTokenIds`. Defaults to `None`.
        """
        ids_path, offsets_path = file_paths(path, name)
        # np.memmap cannot map an empty file.
        ids = np.memmap(ids_path, "<i4", "r") if ids_path.stat().st_size else np.zeros(0, "<i4")
        return cls(ids, np.memmap(offsets_path, "<i8", "r"), special_token_ids)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        """Returns a sentence's ids `(length,)`. Negative rows count from the end."""
        if not isinstance(row, numbers.Integral) or isinstance(row, bool):
            raise TypeError(
                f"Expected a row of type int. Received: row={row!r}. Use padded for several rows."
            )
        index, count = int(row), len(self)
        if not -count <= index < count:
            raise self._no_such_row(index)
        if index < 0:
            index += count
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def _no_such_row(self, row: int) -> IndexError:
        count = len(self)
        return IndexError(
            f"Expected a row from {-count} to {count - 1}, because there are {count} sentences. "
            f"Received: row={row}."
        )

    def _indices(self, rows: Any) -> np.ndarray:
        """Returns sentence indices `(batch,)` in `[0, num_sentences)`."""
        given = np.asarray(rows)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise ValueError(
                "Expected rows to be a one-dimensional array of integers. Received: rows of shape "
                f"{given.shape} and dtype {given.dtype}. Convert a mask with np.flatnonzero."
            )
        count = len(self)
        is_outside = (given < -count) | (given >= count)
        if is_outside.any():
            raise self._no_such_row(int(given[is_outside.argmax()]))
        given = given.astype("int64")
        return np.where(given < 0, given + count, given)

    @property
    def lengths(self) -> np.ndarray:
        """Int32 array `(num_sentences,)`, number of ids in each sentence, without special ids."""
        return np.diff(self.offsets).astype(np.int32)

    def padded(
        self,
        rows: np.ndarray,
        width: int,
        start_token_id: int | None = None,
        end_token_id: int | None = None,
    ) -> np.ndarray:
        """Gathers sentences into one array, padded on the right.

        Args:
            rows: Int array or list with shape `(batch,)`, sentence indices. Negative indices count
                from the end.
            width: Int, number of columns, at least the length of the longest sentence including its
                special ids.
            start_token_id: Int, id inserted before every sentence. Defaults to `None`: no id.
            end_token_id: Int, id appended to every sentence. Defaults to `None`: no id.

        Returns:
            Int32 array with shape `(batch, width)`.

        Raises:
            ValueError: If `rows` are not integers, or `width` is too small.
            IndexError: If a row is out of range.
        """
        rows = self._indices(rows)
        starts = self.offsets[rows]  # (B,)
        lengths = self.offsets[rows + 1] - starts  # (B,)
        first = 0 if start_token_id is None else 1
        least = first + lengths.max(initial=0) + (0 if end_token_id is None else 1)
        if len(rows) and width < least:
            raise ValueError(
                f"Expected width to be at least {least}, the longest sentence with its special "
                f"ids. Received: width={width}."
            )
        position = np.arange(width) - first  # (T,)
        # `take` needs at least one id, even if all sentences are empty.
        pool = self.ids if len(self.ids) else np.zeros(1, np.int32)
        ids = pool.take(starts[:, None] + position, mode="clip")  # (B, T)
        is_piece = (position >= 0) & (position < lengths[:, None])  # (B, T)
        ids = np.where(is_piece, ids, np.int32(self.special_token_ids.pad))  # (B, T)
        if start_token_id is not None:
            ids[:, 0] = start_token_id
        if end_token_id is not None:
            ids[np.arange(len(rows)), first + lengths] = end_token_id
        return ids


def file_paths(directory: str | PathLike, name: str) -> tuple[Path, Path]:
    """Returns the paths for ids (little-endian int32) and offsets (little-endian int64)."""
    return Path(directory) / f"{name}.ids", Path(directory) / f"{name}.offsets"
