"""Beams of a sentence as further queries to its memory, which is not repeated for them."""

import keras
from keras import ops

from keras_attn._types import Tensor


def fold_beams_into_queries(
    query: Tensor, batch: int | Tensor, sizes: tuple[int, ...] | None = None
) -> Tensor:
    """Puts the queries of all beams of a sentence side by side.

    Args:
        query: `(batch * beams, time, features)`, or `(batch * beams, features)` for one query
            each; the beams of a sentence side by side.
        batch: int32 scalar, the number of sentences.
        sizes: tuple of ints with the product `features`, the axes that these become. Default: one.

    Returns:
        `(batch, beams * time, *sizes)`.
    """
    rows, *time, features = ops.shape(query)
    sizes = (features,) if sizes is None else sizes
    if not time and not isinstance(rows, int):
        # Unlike a division, this costs nothing in an exported graph. Nobody takes a step there for
        # zero sentences, of which -1 would tell nothing.
        return ops.reshape(query, (batch, -1, *sizes))
    beams = _beams(rows, batch)
    return ops.reshape(query, (batch, beams * time[0] if time else beams, *sizes))


def split_beams(tensor: Tensor, batch: int | Tensor) -> Tensor:
    """`(batch * beams, ...)` to `(batch, beams, ...)`."""
    rows, *rest = ops.shape(tensor)
    beams = _beams(rows, batch) if isinstance(rows, int) else -1
    return ops.reshape(tensor, (batch, beams, *rest))


def merge_beams(tensor: Tensor, rows: int | Tensor) -> Tensor:
    """`(batch, beams, ...)` to `(rows, ...)`, rows being `batch * beams`."""
    return ops.reshape(tensor, (rows, *ops.shape(tensor)[2:]))


def _beams(rows, batch):
    """`rows // batch`, and 0 for a batch of zero sentences."""
    if keras.backend.backend() == "tensorflow":
        return rows // ops.maximum(batch, 1)
    return rows // batch if batch != 0 else 0
