from typing import Any

import keras

from keras_attn._types import Mask, Tensor


class AttachMask(keras.layers.Layer):
    """Attaches an implicit Keras mask to a tensor.

    Keras attaches masks only to a layer's first output. Use this layer for further outputs.

    Call arguments:
        inputs: Tensor of any shape.
        mask: Boolean tensor of shape `(batch, time)`, or `None`.

    Returns:
        The inputs.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, mask: Mask | None = None) -> Tensor:
        return inputs
