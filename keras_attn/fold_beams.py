"""Beams of a sentence as further queries to its memory, which is not repeated for them."""

import keras
from keras import ops


def fold_beams(query, batch):
    """Puts the queries of all beams of a sentence side by side.

    Args:
        query: `(batch * beams, time, features)`, the beams of a sentence side by side.
        batch: int32 scalar, the number of sentences.

    Returns:
        `(batch, beams * time, features)`.
    """
    rows, time, features = ops.shape(query)
    return ops.reshape(query, (batch, _beams(rows, batch) * time, features))


def unfold_beams(results, rows, time):
    """Takes the results of folded queries apart again.

    Args:
        results: `(batch, beams * time, features)`.
        rows: int32 scalar, `batch * beams`.
        time: int32 scalar.

    Returns:
        `(batch * beams, time, features)`.
    """
    return ops.reshape(results, (rows, time, ops.shape(results)[-1]))


def _beams(rows, batch):
    """`rows // batch`, and 0 for a batch of zero sentences."""
    if keras.backend.backend() == "tensorflow":
        return rows // ops.maximum(batch, 1)
    return rows // batch if batch != 0 else 0
