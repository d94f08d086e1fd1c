from typing import Any

import keras

from keras_attn._layer.layer import Layer
from keras_attn._types import Mask, StaticShape, Tensor
from keras_attn.masks import join, masked_mean

POOLINGS = ("mean", "first")


@keras.saving.register_keras_serializable(package="keras_attn")
class SequencePooling(Layer):
    """Makes one vector of what an encoder found in a sequence.

        mean     y = sum_s mask[s] x[s] / sum_s mask[s]
        first    y = x[0], as in BERT, where a sequence begins with a token made for this

    Args:
        pooling: `"mean"` or `"first"`. Default `"mean"`.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        encoder_outputs: `(batch, source, features)`.
        encoder_mask: boolean `(batch, source)`, True = real. It is joined with the implicit mask.
            Without any mask, all positions count.
        mask, encoder_outputs_mask: boolean `(batch, source)`, the implicit mask of
            `encoder_outputs`, passed by Keras or a wrapper.

    Returns:
        `(batch, features)`.

    Masking:
        The mean is that of the real positions; zeros where there is none.

    Raises:
        ValueError: for an unknown name.

    Example:

    >>> import numpy as np
    >>> x, mask = np.array([[[1.0], [3.0], [9.0]]], "float32"), np.array([[True, True, False]])
    >>> np.array(SequencePooling()(x, mask)).tolist()
    [[2.0]]
    """

    def __init__(self, pooling: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {POOLINGS}. Received: pooling={pooling!r}.")
        self.supports_masking = True
        self.pooling = pooling

    def call(
        self,
        encoder_outputs: Tensor,
        encoder_mask: Mask | None = None,
        mask: Mask | None = None,
        encoder_outputs_mask: Mask | None = None,
    ) -> Tensor:
        if self.pooling == "first":
            return encoder_outputs[:, 0]  # (B, D)
        encoder_mask = join(
            encoder_outputs,
            encoder_mask=encoder_mask,
            mask=mask,
            encoder_outputs_mask=encoder_outputs_mask,
        )
        return masked_mean(encoder_outputs, encoder_mask)  # (B, D)

    def compute_output_shape(self, encoder_outputs_shape: StaticShape) -> tuple[int | None, ...]:
        return (encoder_outputs_shape[0], *encoder_outputs_shape[2:])

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # there is no time any more

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pooling": self.pooling}
