from typing import Any, Self

import keras

from keras_attn._drop_ins.layer_normalization import LayerNormalization
from keras_attn._layer.argument_checks import check_positive_number
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._output_layers.projection import compute_logits
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._transformer.feed_forward import get_activation
from keras_attn._types import ActivationLike, Mask, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class TiedMLMHead(Layer):
    """Head for masked language models that shares an embedding matrix.

        y = E norm(gelu(W x + b)) + c

    Here E is the embedding matrix. This is the head in BERT ([Devlin et al.,
    2019](https://arxiv.org/abs/1810.04805)), as in the authors' implementation.

    Args:
        embedding: `keras.layers.ReversibleEmbedding` with the matrix E. Other layers may share this
            embedding, and still share it after a model is saved and loaded.
        activation: String or function, the dense layer's activation, see `FeedForward`.
            Defaults to `"gelu"`.
        epsilon: Positive float, added to the variance in the normalization. Defaults to `1e-5`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(..., features)`.
        return_features: Bool, whether to return the features before multiplying by E and adding c.
            Defaults to `False`.

    Returns:
        Float32 logits of shape `(..., vocabulary)`.

    Raises:
        ValueError: If `embedding` is not a `keras.layers.ReversibleEmbedding`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import TiedMLMHead
    >>> head = TiedMLMHead(keras.layers.ReversibleEmbedding(30, 8))
    >>> tuple(head(np.ones((2, 5, 8), "float32")).shape)
    (2, 5, 30)
    """

    is_container = True

    def __init__(
        self,
        embedding: keras.layers.Layer,
        activation: ActivationLike = "gelu",
        *,
        epsilon: float = 1e-5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(embedding, keras.layers.ReversibleEmbedding):
            raise ValueError(
                "Expected embedding to be a keras.layers.ReversibleEmbedding, whose matrix is "
                f"shared. Received: embedding={type(embedding).__name__}."
            )
        check_positive_number(epsilon=epsilon)
        self.supports_masking = True
        self.embedding = embedding
        self.epsilon = epsilon
        self.dense = keras.layers.Dense(
            embedding.output_dim,
            activation=get_activation(activation),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.norm = LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy, name="norm")

    @property
    def activation(self) -> Any:
        """The dense layer's activation."""
        return self.dense.activation

    def build(self, inputs_shape: StaticShape) -> None:
        inner_shape = (*inputs_shape[:-1], self.embedding.output_dim)
        ensure_built(self.embedding, inputs_shape[:-1])
        self.dense.build(inputs_shape)
        self.norm.build(inner_shape)
        self.bias = self.add_weight(
            name="bias", shape=(self.embedding.input_dim,), initializer="zeros"
        )

    def call(self, inputs: Tensor, return_features: bool = False) -> Tensor:
        hidden = self.norm(self.dense(inputs))  # (..., E)
        return hidden if return_features else compute_logits(hidden, self.embedding, self.bias)

    def compute_output_shape(self, inputs_shape: StaticShape) -> tuple[int | None, ...]:
        return (*inputs_shape[:-1], self.embedding.input_dim)

    def compute_output_spec(self, inputs: Tensor, return_features: bool = False) -> Any:
        return keras.KerasTensor(self.compute_output_shape(tuple(inputs.shape)), dtype="float32")

    def compute_mask(self, inputs: Any, previous_mask: Any) -> Mask | None:
        return None  # losses ignore positions by label, not by mask

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding": serialize_shared(self.embedding),
            "activation": keras.activations.serialize(self.activation),
            "epsilon": self.epsilon,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        embedding = deserialize_shared(config["embedding"])
        return cls(**{**config, "embedding": embedding})
