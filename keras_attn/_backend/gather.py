"""Selects rows and beams with few nodes in an exported graph."""

from typing import Any

import keras
from keras import ops, tree

from keras_attn._types import Tensor, TensorDict
from keras_attn_checks.number_types import is_integer


def true_indices(mask: Tensor) -> Tensor:
    """Returns the indices of a vector's true entries.

    On TensorFlow, `ops.nonzero` splits a matrix of unknown size into columns. LiteRT does not
    support this split.

    Args:
        mask: Boolean tensor of shape `(n,)`.

    Returns:
        Int32 tensor of shape `(num_true,)`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.cast(tf.reshape(tf.where(mask), (-1,)), "int32")
    (indices,) = ops.nonzero(mask)
    return ops.cast(indices, "int32")


def gather_rows(tensor: Tensor, rows: Tensor, axis: int = 0) -> Tensor:
    """Returns `tensor[rows]` along an axis, for non-negative row indices.

    Unlike `ops.take`, the function does not support negative indices, which need five additional
    nodes per tensor in an exported graph.

    Args:
        tensor: Tensor of any shape.
        rows: Int tensor of indices.
        axis: Int, axis to select from. Defaults to `0`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(tensor, rows, axis=axis)
    return ops.take(tensor, rows, axis=axis)


def gather_beams(tensor: Tensor, beams: Tensor) -> Tensor:
    """Selects beams in each batch entry.

    Args:
        tensor: Tensor of shape `(batch, old_beams, ...)`.
        beams: Int32 tensor of shape `(batch, new_beams)`.

    Returns:
        Tensor of shape `(batch, new_beams, ...)`.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(tensor, beams, axis=1, batch_dims=1)  # one node of an exported graph
    shape = ops.shape(tensor)
    new_beams = beams.shape[1]
    flat = ops.reshape(tensor, (shape[0] * shape[1], *shape[2:]))
    rows = flat_rows(beams, shape[0], shape[1])
    return ops.reshape(gather_rows(flat, rows), (shape[0], new_beams, *shape[2:]))


def reorder(state: TensorDict, rows: Tensor) -> TensorDict:
    """Reorders the rows in a decoder state to match the selected hypotheses.

    Args:
        state: Decoder state.
        rows: Int32 tensor of shape `(batch * beams,)`. For each hypothesis, the index of the row
            whose state it continues. This row must belong to the same batch entry.

    Returns:
        The new state. The entry `shared` is unchanged.
    """
    return {
        name: value if name == "shared" else gather_leaves(value, rows)
        for name, value in state.items()
    }


def keep_sentences(state: TensorDict, sentences: Tensor, rows: Tensor) -> TensorDict:
    """Selects batch entries in a decoder state.

    Args:
        state: Decoder state.
        sentences: Int32 tensor of shape `(n,)`, batch entry indices.
        rows: Int32 tensor of shape `(n * beams,)`, row indices of the beams in these batch entries.

    Returns:
        The new state.
    """
    return {
        name: gather_leaves(value, sentences if name == "shared" else rows)
        for name, value in state.items()
    }


def gather_leaves(nested: Any, rows: Tensor) -> Any:
    """Applies `gather_rows` to all nested tensors except scalars."""
    return tree.map_structure(
        lambda leaf: gather_rows(leaf, rows) if len(leaf.shape) else leaf, nested
    )


def repeat_rows(tensor: Tensor, times: int | Tensor) -> Tensor:
    """Repeats each row of a tensor.

    Args:
        tensor: Tensor of shape `(rows, ...)`.
        times: Int or scalar int32 tensor.

    Returns:
        Tensor of shape `(rows * times, ...)`.
    """
    if is_integer(times):
        return tensor if times == 1 else ops.repeat(tensor, times, axis=0)
    rows = ops.arange(ops.shape(tensor)[0] * times, dtype="int32") // times
    return gather_rows(tensor, rows)


def flat_rows(beams: Tensor, batch: int | Tensor, beam_width: int | Tensor) -> Tensor:
    """Returns flat row indices `(batch * new_beams,)` for beam indices `(batch, new_beams)`.

    Args:
        beams: Int32 tensor of shape `(batch, new_beams)`.
        batch: Int or scalar int32 tensor, batch size.
        beam_width: Int or scalar int32 tensor, number of beams in the indexed tensor.
    """
    first = ops.arange(batch, dtype="int32")[:, None] * beam_width
    return ops.reshape(beams + first, (-1,))
