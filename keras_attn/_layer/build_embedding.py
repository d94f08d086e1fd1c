from typing import Any

import keras

from keras_attn._layer.argument_checks import check_sequence_shape
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._types import StaticShape


def build_embedding(embedding: keras.layers.Layer | None, inputs_shape: StaticShape) -> Any:
    """Builds the embedding in an encoder or decoder.

    Args:
        embedding: Keras layer, or `None` if the inputs are vectors.
        inputs_shape: Tuple, input shape.

    Returns:
        Vector shape, `(batch, time, features)`.

    Raises:
        ValueError: If the inputs have the wrong rank.
    """
    shape = tuple(inputs_shape)
    if embedding is not None:
        ensure_built(embedding, shape)
        shape = embedding.compute_output_shape(shape)
    if embedding is None:
        check_sequence_shape("inputs", shape)
    elif len(shape) != 3:
        raise ValueError(
            "Expected inputs of shape (batch, time). Received: inputs with shape "
            f"{tuple(inputs_shape)}. For other inputs, pass an embedding that returns vectors of "
            "shape (batch, time, features)."
        )
    return shape
