"""Writes sentences of token ids to files that can be memory-mapped."""

from collections.abc import Sequence
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from keras_attn.text.encoded_sentences import file_paths


class EncodedSentencesWriter:
    """Appends sentences of ids to the two files that `EncodedSentences.load` reads.

    Args:
        directory: Path of an existing directory.
        name: String, name of the sentences, such as `"source"`. The file names contain it.
    """

    def __init__(self, directory: str | PathLike, name: str) -> None:
        self.num_tokens = 0
        ids_path, offsets_path = file_paths(directory, name)
        self._ids_file = open(ids_path, "wb")
        self._offsets_file = open(offsets_path, "wb")
        self._offsets_file.write(np.zeros(1, "<i8").tobytes())

    def append(self, sentences: Sequence[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, sentences), "<i8", len(sentences))
        ids = np.fromiter(chain.from_iterable(sentences), "<i4", lengths.sum())
        self._ids_file.write(ids.tobytes())
        self._offsets_file.write((self.num_tokens + np.cumsum(lengths)).astype("<i8").tobytes())
        self.num_tokens += len(ids)

    def __enter__(self) -> "EncodedSentencesWriter":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._ids_file.close()
        self._offsets_file.close()
