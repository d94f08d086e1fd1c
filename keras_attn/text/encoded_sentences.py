"""Sentences of token ids, in memory or in memory-mapped files."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from keras_attn.text.tokenizer import SpecialTokenIds


class EncodedSentences:
    """Stores sentences of token ids in two arrays with random access.

    Sentence `i` is `ids[offsets[i]:offsets[i + 1]]`, without start, end and padding ids. `load`
    memory-maps both arrays, so the corpus may be larger than the main memory.

    Args:
        ids: Int32 array of shape `(num_tokens,)`.
        offsets: Int64 array of shape `(num_sentences + 1,)`. The first offset is 0, the last offset
            is `num_tokens`, and the offsets do not decrease.
        special_token_ids: `SpecialTokenIds` of the tokenizer. Defaults to `None`: the ids that
            `SentencePieceTokenizer.train` uses.

    Raises:
        ValueError: If `offsets` does not range from 0 to the number of ids.

    Example:

    >>> sentences = EncodedSentences.from_lists([[7, 8, 9], [5]])
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
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != len(self.ids):
            raise ValueError(
                "Expected offsets from 0 to the number of ids. Received: "
                f"offsets={self.offsets!r}, len(ids)={len(self.ids)}."
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
            special_token_ids: `SpecialTokenIds` of the tokenizer. Defaults to `None`.
        """
        offsets = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        ids = np.concatenate([np.zeros(0, np.int32), *(np.asarray(s, int) for s in sentences)])
        return cls(ids.astype(np.int32), offsets, special_token_ids)

    @classmethod
    def load(
        cls,
        directory: str | PathLike,
        name: str,
        special_token_ids: SpecialTokenIds | None = None,
    ) -> "EncodedSentences":
        """Memory-maps the files written by `EncodedSentencesWriter`.

        Args:
            directory: Path of the directory.
            name: String, name of the sentences, such as `"source"`.
            special_token_ids: `SpecialTokenIds` of the tokenizer. Defaults to `None`.
        """
        ids_path, offsets_path = file_paths(directory, name)
        # np.memmap cannot map an empty file.
        ids = np.memmap(ids_path, "<i4", "r") if ids_path.stat().st_size else np.zeros(0, "<i4")
        return cls(ids, np.memmap(offsets_path, "<i8", "r"), special_token_ids)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """Int32 array `(num_sentences,)`, number of ids of each sentence, without special ids."""
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
            rows: Int array of shape `(batch,)`, sentence indices.
            width: Int, number of columns. It must be at least the length of the longest sentence,
                including its special ids.
            start_token_id: Int, id inserted before every sentence. Defaults to `None`: no id.
            end_token_id: Int, id appended to every sentence. Defaults to `None`: no id.

        Returns:
            Int32 array of shape `(batch, width)`.
        """
        starts = self.offsets[rows]  # (B,)
        lengths = self.offsets[rows + 1] - starts  # (B,)
        first = 0 if start_token_id is None else 1
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
    """Returns the paths of the ids (little-endian int32) and offsets (little-endian int64)."""
    return Path(directory) / f"{name}.ids", Path(directory) / f"{name}.offsets"
