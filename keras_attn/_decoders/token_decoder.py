from typing import Any, Self

import keras

from keras_attn._decoders.step_decoder import StepDecoder
from keras_attn._layer.argument_checks import check_layers
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._serialization.shared_layers import deserialize_shared, serialize_shared
from keras_attn._types import StaticShape


class TokenDecoder(StepDecoder):
    """Base class for decoders with an embedding and an output head.

    Args:
        embedding: Layer that maps ids `(B, T)`, or other step inputs, to vectors.
        head: Layer that maps outputs to logits. Defaults to `None`: the embedding is also the
            output layer ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)), and must be a
            `keras.layers.ReversibleEmbedding`.
        use_output_bias: Bool, whether a trainable bias is added to the logits. `True` requires
            `head=None`. Defaults to `False`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: If `head` is `None` and the embedding cannot be the output layer, or
            `use_output_bias=True` is combined with a head.
    """

    def __init__(
        self,
        embedding: keras.layers.Layer,
        head: keras.layers.Layer | None = None,
        *,
        use_output_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if head is None and not isinstance(embedding, keras.layers.ReversibleEmbedding):
            raise ValueError(
                "Expected embedding to be a keras.layers.ReversibleEmbedding if there is no head. "
                f"Received: embedding={type(embedding).__name__}. "
                "Pass head=keras.layers.Dense(...)."
            )
        check_layers(embedding=embedding, head=head)
        if head is not None and use_output_bias:
            raise ValueError(
                "Expected use_output_bias=False with a head. Received: use_output_bias=True, "
                f"head={type(head).__name__}. Give the head itself a bias."
            )
        self.embedding = embedding
        self.head = head
        self.use_output_bias = use_output_bias
        self.output_bias: Any = None

    def build_head(self, output_shape: StaticShape, embedding_dim: int) -> None:
        """Builds the head. Without a head, checks the output size and creates the bias.

        Args:
            output_shape: Tuple, shape of the decoder outputs.
            embedding_dim: Int, embedding size.
        """
        if self.head is not None:
            ensure_built(self.head, output_shape)
        elif output_shape[-1] != embedding_dim:
            raise ValueError(
                "Expected outputs and embedding of the same size, because there is no head. "
                f"Received: output size={output_shape[-1]}, embedding size={embedding_dim}. "
                "Use equal sizes, or pass a head."
            )
        if self.use_output_bias:
            self.output_bias = self.add_weight(
                name="output_bias", shape=(self.embedding.input_dim,), initializer="zeros"
            )

    @property
    def output_layer(self) -> keras.layers.Layer:
        """Layer that maps outputs `(..., features)` to logits `(..., V)`."""
        return self.embedding if self.head is None else self.head

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "embedding": serialize_shared(self.embedding),
            "head": serialize_shared(self.head),
            "use_output_bias": self.use_output_bias,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        parts = {
            name: deserialize_shared(value)
            for name, value in config.items()
            if isinstance(value, dict) and "class_name" in value and name != "dtype"
        }
        return cls(**{**config, **parts})
