"""The choice of rows and beams, in as few nodes of an exported graph as the backend allows."""

from typing import Any

import keras
from keras import ops, tree

from keras_attn._types import Tensor, TensorDict


def gather_rows(tensor: Tensor, rows: Tensor, axis: int = 0) -> Tensor:
    """`tensor[rows]` along an axis, for row numbers that are never negative.

    `ops.take` also maps negative numbers, which adds five nodes to the exported graph for every
    tensor.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(tensor, rows, axis=axis)
    return ops.take(tensor, rows, axis=axis)


def gather_beams(tensor: Tensor, beams: Tensor) -> Tensor:
    """Chooses beams of each sentence.

    Args:
        tensor: `(batch, old beams, ...)`.
        beams: int32 `(batch, new beams)`.

    Returns:
        `(batch, new beams, ...)`.
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
    """Goes on with other hypotheses.

    Args:
        state: of a decoder.
        rows: int32 `(batch * beams,)`: whose state each hypothesis takes over, one of its sentence.

    Returns:
        The new state, in which what is `shared` is as before.
    """
    return {
        name: value if name == "shared" else gather_leaves(value, rows)
        for name, value in state.items()
    }


def keep_sentences(state: TensorDict, sentences: Tensor, rows: Tensor) -> TensorDict:
    """Keeps some sentences of a state.

    Args:
        state: of a decoder.
        sentences: int32 vector, those that are kept.
        rows: int32 vector, the rows of their beams.

    Returns:
        The new state.
    """
    return {
        name: gather_leaves(value, sentences if name == "shared" else rows)
        for name, value in state.items()
    }


def gather_leaves(nested: Any, rows: Tensor) -> Any:
    """`gather_rows` of each leaf of nested tensors but of scalars, which stay as they are."""
    return tree.map_structure(
        lambda leaf: gather_rows(leaf, rows) if len(leaf.shape) else leaf, nested
    )


def flat_rows(beams: Tensor, batch: int | Tensor, beam_width: int | Tensor) -> Tensor:
    """Rows `(batch * new,)` of a `(batch * beam_width, ...)` tensor for beams `(batch, new)`."""
    first = ops.arange(batch, dtype="int32")[:, None] * beam_width
    return ops.reshape(beams + first, (-1,))
