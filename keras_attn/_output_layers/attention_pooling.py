from typing import Any

import keras
from keras import ops

from keras_attn._attention.attention_recorder import record
from keras_attn._backend.float64 import tanh
from keras_attn._layer.argument_checks import check_positive_integer, check_sequence_shape
from keras_attn._layer.layer import Layer
from keras_attn._masks import attention_mask, join, masked_softmax
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._types import InitializerLike, Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionPooling(Layer):
    """Pools a sequence to one vector: the average of its positions, weighted by attention.

        u_s = tanh(W h_s + b)
        a_s = exp(u_s . u_w) / sum_s' exp(u_s' . u_w)          (s, s': the unmasked positions)
        y   = sum_s a_s h_s

    The layer is the attention of hierarchical attention networks ([Yang et al.,
    2016](https://aclanthology.org/N16-1174), equations 5 to 7). The learned context vector u_w
    takes the place of a query, so the layer has one input and fits into a `keras.Sequential` model.

    Args:
        units: Positive int, size of u_s and of the context vector u_w.
        kernel_initializer: Initializer for W and u_w. Defaults to `"glorot_uniform"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, time, features)`, the sequence h, such as the outputs of
            `keras.layers.LSTM(..., return_sequences=True)`.
        mask: Boolean tensor of shape `(batch, time)`; `False` marks padding. Keras and its wrappers
            pass the implicit mask of `inputs`. Defaults to `None`: no padding.
        return_attention_scores: Bool, whether to also return the weights a. Defaults to `False`.
        inputs_mask: Boolean tensor of shape `(batch, time)`, the implicit mask of `inputs`. Keras
            passes this argument if you pass `mask`. The layer combines `mask` and `inputs_mask`.

    Returns:
        Tensor of shape `(batch, features)`. If `return_attention_scores=True`, a tuple of this
        tensor and the weights `(batch, time)`.

    Masking:
        Masked positions get a weight of exactly 0. If all positions are masked, the weights and the
        output are 0.

    Raises:
        ValueError: If `units` is not a positive integer, or `inputs` does not have rank 3.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionPooling
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((None,), dtype="int32"),
    ...         keras.layers.Embedding(20, 8, mask_zero=True),
    ...         keras.layers.LSTM(8, return_sequences=True),
    ...         AttentionPooling(units=8),
    ...         keras.layers.Dense(1, "sigmoid"),
    ...     ]
    ... )
    >>> tuple(model(np.array([[5, 6, 7, 0]])).shape)
    (1, 1)
    """

    def __init__(
        self, units: int, *, kernel_initializer: InitializerLike = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive_integer("units", units)
        self.supports_masking = True
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: StaticShape) -> None:
        check_sequence_shape("inputs", inputs_shape)
        shapes = {"kernel": (inputs_shape[-1], self.units), "context_vector": (self.units, 1)}
        self.kernel, self.context_vector = (
            self.add_weight(
                name=name,
                shape=shape,
                initializer=clone_initializer(self.kernel_initializer, name),
            )
            for name, shape in shapes.items()
        )
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def call(
        self,
        inputs: Tensor,
        mask: Mask | None = None,
        return_attention_scores: bool = False,
        inputs_mask: Mask | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        mask = attention_mask(inputs, join(inputs, mask=mask, inputs_mask=inputs_mask))  # (B, 1, S)
        hidden = tanh(ops.matmul(inputs, self.kernel) + self.bias)  # (B, S, U)
        scores = ops.matmul(hidden, self.context_vector)  # (B, S, 1)
        weights = masked_softmax(ops.transpose(scores, (0, 2, 1)), mask)  # (B, 1, S)
        record(self, weights)
        pooled = ops.matmul(weights, inputs)[:, 0]  # (B, D)
        return (pooled, weights[:, 0]) if return_attention_scores else pooled

    def compute_output_shape(self, inputs_shape: StaticShape) -> tuple[int | None, ...]:
        return (inputs_shape[0], inputs_shape[-1])

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Mask | None = None,
        return_attention_scores: bool = False,
        inputs_mask: Mask | None = None,
    ) -> Any:
        batch, time, features = inputs.shape
        pooled = keras.KerasTensor((batch, features), dtype=self.compute_dtype)
        weights = keras.KerasTensor((batch, time), dtype=self.compute_dtype)
        return (pooled, weights) if return_attention_scores else pooled

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # the output has no time axis

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
