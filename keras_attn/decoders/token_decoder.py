import keras

from keras_attn._layer.argument_checks import check_layers
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.decoders.step_decoder import StepDecoder
from keras_attn.output_layers.projection import logits_of


class TokenDecoder(StepDecoder):
    """A decoder with an embedding before it and an output head behind it.

    Args:
        embedding: layer that turns ids `(B, T)` into vectors; any layer that maps inputs of a step
            to vectors.
        head: layer that turns outputs into logits. `None`: the embedding's own `reverse`, of
            `keras.layers.ReversibleEmbedding`, which ties the weights
            ([Press and Wolf, 2017](https://arxiv.org/abs/1608.05859)). Default `None`.
        **kwargs: arguments of `keras.layers.Layer`.

    Raises:
        ValueError: if the output cannot be tied to the embedding.
    """

    def __init__(self, embedding, head=None, **kwargs):
        super().__init__(**kwargs)
        if head is None and not isinstance(embedding, keras.layers.ReversibleEmbedding):
            raise ValueError(
                "Without a head the embedding must be a keras.layers.ReversibleEmbedding. "
                f"Received: embedding={type(embedding).__name__}. "
                "Pass head=keras.layers.Dense(...)."
            )
        check_layers(embedding=embedding, head=head)
        self.embedding = embedding
        self.head = head

    def build_head(self, output_shape, embedding_dim):
        """Builds the head for outputs of a shape, and checks that they can be tied."""
        if self.head is not None:
            ensure_built(self.head, output_shape)
        elif output_shape[-1] != embedding_dim:
            raise ValueError(
                "Tied to the embedding, the output must have its size. "
                f"Received: output size={output_shape[-1]}, embedding size={embedding_dim}. "
                "Make them equal, or pass a head."
            )

    def project(self, outputs, training=False):
        """float32 logits `(..., V)` of outputs `(..., features)`."""
        layer = self.embedding if self.head is None else self.head
        return logits_of(outputs, layer, training=training)

    def get_config(self):
        return {
            **super().get_config(),
            "embedding": serialize_shared(self.embedding),
            "head": serialize_shared(self.head),
        }

    @classmethod
    def from_config(cls, config):
        parts = {
            name: deserialize_shared(value)
            for name, value in config.items()
            if isinstance(value, dict) and "class_name" in value and name != "dtype"
        }
        return cls(**{**config, **parts})
