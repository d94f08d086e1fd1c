"""Reshapes tensors so that the beams of a batch entry are additional queries."""

import keras
from keras import ops

from keras_attn._types import Tensor


def fold_beams_into_queries(
    query: Tensor, batch: int | Tensor, sizes: tuple[int, ...] | None = None
) -> Tensor:
    """Merges the beam axis and the time axis of queries.

    Args:
        query: Tensor of shape `(batch * beams, time, features)`, or `(batch * beams, features)` for
            one query per beam. The beams of a batch entry are in consecutive rows.
        batch: Int or scalar int32 tensor, batch size.
        sizes: Tuple of ints. The features are split into axes of these sizes, whose product must be
            `features`. Defaults to `None`: one axis.

    Returns:
        Tensor of shape `(batch, beams * time, *sizes)`.
    """
    rows, *time, features = ops.shape(query)
    sizes = (features,) if sizes is None else sizes
    if not time and not isinstance(rows, int):
        # Use -1, because a division would add nodes to an exported graph. -1 cannot be inferred for
        # an empty batch, but exported graphs never step an empty batch.
        return ops.reshape(query, (batch, -1, *sizes))
    beams = _beams(rows, batch)
    return ops.reshape(query, (batch, beams * time[0] if time else beams, *sizes))


def split_beams(tensor: Tensor, batch: int | Tensor) -> Tensor:
    """Reshapes `(batch * beams, ...)` to `(batch, beams, ...)`."""
    rows, *rest = ops.shape(tensor)
    beams = _beams(rows, batch) if isinstance(rows, int) else -1
    return ops.reshape(tensor, (batch, beams, *rest))


def merge_beams(tensor: Tensor, rows: int | Tensor) -> Tensor:
    """Reshapes `(batch, beams, ...)` to `(rows, ...)`, where `rows` is `batch * beams`."""
    return ops.reshape(tensor, (rows, *ops.shape(tensor)[2:]))


def _beams(rows, batch):
    """Returns `rows // batch`, or 0 for an empty batch."""
    if keras.backend.backend() == "tensorflow":
        return rows // ops.maximum(batch, 1)
    return rows // batch if batch != 0 else 0
