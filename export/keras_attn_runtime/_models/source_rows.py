"""Pads lists of ids to one array."""

from collections.abc import Sequence

import numpy as np

from keras_attn_runtime._array_types import Integers
from keras_attn_runtime._file_format import Side

END_OF_ROW = -1
"""Id after a source whose last token would otherwise be padding."""


def source_rows(rows: Sequence[list[int]], side: Side, length: int | None) -> Integers:
    """Pads the ids of sources, see `padded_rows`."""
    rows = [[*row, END_OF_ROW] if side.needs_end_of_row(row) else row for row in rows]
    return padded_rows(rows, side.pad_token_id, length)


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
