from typing import Any

import keras

from keras_attn._types import StaticShape


def build_activation(activation: object, shape: StaticShape) -> None:
    """Builds an activation that is a layer, such as `keras.layers.PReLU`.

    Args:
        activation: Activation function or layer. Functions need no build.
        shape: Tuple, input shape.
    """
    if isinstance(activation, keras.layers.Layer):
        ensure_built(activation, shape)


def ensure_built(layer: keras.layers.Layer, *shapes: Any) -> None:
    """Builds a layer unless it is already built, for example a shared or loaded layer.

    Args:
        layer: Keras layer.
        *shapes: Arguments of `layer.build`. For a layer that does not override `build`, only the
            first shape is used.
    """
    if layer.built:
        return
    if type(layer).build is keras.layers.Layer.build:
        shapes = shapes[:1]
    layer.build(*shapes)
