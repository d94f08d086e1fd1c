from typing import Any

import keras

from keras_attn._layer.argument_checks import check_sequence_shape
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._types import StaticShape


def build_embedding(embedding: keras.layers.Layer | None, inputs_shape: StaticShape) -> Any:
    """Builds the embedding of an encoder or decoder.

    Args:
        embedding: a Keras layer, or `None` for inputs that are vectors.
        inputs_shape: shape of the inputs.

    Returns:
        Shape of the vectors, `(batch, time, features)`.

    Raises:
        ValueError: for inputs of another rank.
    """
    shape = tuple(inputs_shape)
    if embedding is not None:
        ensure_built(embedding, shape)
        shape = embedding.compute_output_shape(shape)
    if embedding is None:
        check_sequence_shape("inputs", shape)
    elif len(shape) != 3:
        raise ValueError(
            "Expected inputs of shape (batch, time), or what else the embedding turns into vectors "
            f"(batch, time, features). Received: inputs with shape {tuple(inputs_shape)}."
        )
    return shape
