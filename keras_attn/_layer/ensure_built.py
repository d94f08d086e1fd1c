from typing import Any

import keras

from keras_attn._types import StaticShape


def build_activation(activation: object, shape: StaticShape) -> None:
    """Builds an activation that is a layer, such as `keras.layers.PReLU`, for inputs of a shape.

    Other activations have nothing to build.
    """
    if isinstance(activation, keras.layers.Layer):
        ensure_built(activation, shape)


def ensure_built(layer: keras.layers.Layer, *shapes: Any) -> None:
    """Builds a layer unless it is built: one that is shared, or that came built from a saved file.

    Args:
        layer: a Keras layer.
        *shapes: arguments of its `build`; of a layer without a `build` of its own, any.
    """
    if layer.built:
        return
    if type(layer).build is keras.layers.Layer.build:
        shapes = shapes[:1]
    layer.build(*shapes)
