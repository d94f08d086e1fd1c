from typing import Any

import keras

from keras_attn._layer.layer import Layer
from keras_attn._masks import join, masked_mean
from keras_attn._types import Mask, StaticShape, Tensor

POOLINGS = ("mean", "first")


@keras.saving.register_keras_serializable(package="keras_attn")
class SequencePooling(Layer):
    """Pools encoder outputs to one vector per sequence.

        mean     y = sum_s mask[s] x[s] / sum_s mask[s]
        first    y = x[0]

    BERT uses `"first"`, because its sequences begin with a class token.

    Args:
        pooling: String, `"mean"` or `"first"`. Defaults to `"mean"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        encoder_outputs: Tensor of shape `(batch, source, features)`.
        encoder_mask: Boolean tensor of shape `(batch, source)`; `True` marks positions that
            contribute to the mean. It is combined with the implicit mask. Defaults to `None`: all
            positions contribute.
        mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `encoder_outputs`.
            Keras wrappers such as `TimeDistributed` pass this argument.
        encoder_outputs_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of
            `encoder_outputs`. Keras passes this argument outside of wrappers.

    Returns:
        Tensor of shape `(batch, features)`.

    Masking:
        The mean is over the unmasked positions, and zero if all positions are masked.
        `"first"` ignores masks.

    Raises:
        ValueError: If `pooling` is unknown, or a mask has the wrong shape or values other than 0
            and 1.

    Example:

    >>> import numpy as np
    >>> from keras_attn import SequencePooling
    >>> x, mask = np.array([[[1.0], [3.0], [9.0]]], "float32"), np.array([[True, True, False]])
    >>> np.array(SequencePooling()(x, mask)).tolist()
    [[2.0]]
    """

    def __init__(self, pooling: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(
                f"Expected pooling to be one of {POOLINGS}. Received: pooling={pooling!r}."
            )
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
        return None  # the output has no time axis

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "pooling": self.pooling}
