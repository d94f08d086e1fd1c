"""The choice of rows and beams, in as few nodes of an exported graph as the backend allows."""

import keras
from keras import ops


def gather_rows(tensor, rows):
    """`tensor[rows]` along axis 0, for row numbers that are never negative.

    `ops.take` also maps negative numbers, which adds five nodes to the exported graph for every
    tensor.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(tensor, rows)
    return ops.take(tensor, rows, axis=0)


def gather_beams(tensor, beams):
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
    rows = flat_rows(beams, shape[1])
    return ops.reshape(gather_rows(flat, rows), (shape[0], new_beams, *shape[2:]))


def flat_rows(beams, beam_width):
    """Rows `(batch * new,)` of a `(batch * beam_width, ...)` tensor for beams `(batch, new)`."""
    first = ops.arange(ops.shape(beams)[0], dtype="int32")[:, None] * beam_width
    return ops.reshape(beams + first, (-1,))
