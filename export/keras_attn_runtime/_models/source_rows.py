"""Pads lists of ids to one array."""

from collections.abc import Sequence

import numpy as np

from keras_attn_runtime._array_types import Integers
from keras_attn_runtime._file_format import Side

END_OF_ROW = -1
"""Id after a source whose last token would otherwise be padding."""

NO_TOKEN = -1
"""Padding of phrases."""


def source_rows(rows: Sequence[list[int]], side: Side, length: int | None) -> Integers:
    """Pads the ids of sources, see `padded_rows`."""
    rows = [[*row, END_OF_ROW] if side.needs_end_of_row(row) else row for row in rows]
    return padded_rows(rows, side.pad_token_id, length)


def padded_phrases(constraints: Sequence[list[list[list[int]]]]) -> Integers:
    """Pads phrases with -1 and returns one array `(batch, phrases, alternatives, tokens)`.

    All axes have a size of at least 1.
    """
    phrases = [phrase for row in constraints for phrase in row]
    alternatives = [ids for phrase in phrases for ids in phrase]
    shape = (
        max([1, *map(len, constraints)]),
        max([1, *map(len, phrases)]),
        max([1, *map(len, alternatives)]),
    )
    array = np.full((len(constraints), *shape), NO_TOKEN, np.int32)
    for row, phrases in zip(array, constraints, strict=True):
        for place, phrase in zip(row, phrases, strict=False):
            for own, ids in zip(place, phrase, strict=False):
                own[: len(ids)] = ids
    return array


def padded_rows(
    rows: Sequence[Sequence[int]], pad_token_id: int, length: int | None = None
) -> Integers:
    """Pads lists of ids on the right and returns one array `(batch, length)`.

    `length` defaults to the length of the longest list. A list that is longer raises ValueError.
    """
    longest = max(map(len, rows))
    if length is not None and longest > length:
        raise ValueError(
            f"Expected at most {length} ids, the fixed size in the file. Received: {longest} ids."
        )
    ids = np.full((len(rows), longest if length is None else length), pad_token_id, np.int32)
    for row, values in zip(ids, rows, strict=True):
        row[: len(values)] = values
    return ids
