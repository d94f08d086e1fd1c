from typing import Any

import keras

from keras_attn._types import Mask, Tensor


class AttachMask(keras.layers.Layer):
    """Gives a tensor the implicit mask of Keras, which it attaches to a layer's first output alone.

    Call arguments:
        inputs: any tensor.
        mask: boolean `(batch, time)` or `None`, what the layers that it is given to will see.

    Returns:
        The inputs.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs: Tensor, mask: Mask | None = None) -> Tensor:
        return inputs
