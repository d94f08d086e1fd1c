import keras

from keras_attn._drop_ins.layer_normalization import LayerNormalization
from keras_attn._layer.ensure_built import ensure_built
from keras_attn._layer.layer import Layer
from keras_attn._serialization.deserialize_shared import deserialize_shared
from keras_attn._serialization.serialize_shared import serialize_shared
from keras_attn.output_layers.projection import logits_of
from keras_attn.transformer.feed_forward import erf_gelu


@keras.saving.register_keras_serializable(package="keras_attn")
class TiedMLMHead(Layer):
    """Turns outputs of an encoder into logits, with the matrix of an embedding.

        y = E norm(gelu(W x + b)) + c

    The head of [Devlin et al., 2019](https://arxiv.org/abs/1810.04805) (BERT), as in the authors'
    implementation.

    Args:
        embedding: the `keras.layers.ReversibleEmbedding` E, which may be part of other layers. It
            is one again in a model that was saved and loaded; `keras.models.clone_model` makes two.
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(..., features)`.

    Returns:
        float32 `(..., vocabulary)`.

    Raises:
        ValueError: for an embedding of another class.
    """

    is_container = True

    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(embedding, keras.layers.ReversibleEmbedding):
            raise ValueError(
                "To tie the output, the embedding must be a keras.layers.ReversibleEmbedding. "
                f"Received: embedding={type(embedding).__name__}."
            )
        self.supports_masking = True
        self.embedding = embedding
        self.dense = keras.layers.Dense(
            embedding.output_dim, activation=erf_gelu, dtype=self.dtype_policy, name="dense"
        )
        self.norm = LayerNormalization(epsilon=1e-5, dtype=self.dtype_policy, name="norm")

    def build(self, inputs_shape):
        inner_shape = (*inputs_shape[:-1], self.embedding.output_dim)
        ensure_built(self.embedding, inputs_shape[:-1])
        self.dense.build(inputs_shape)
        self.norm.build(inner_shape)
        self.bias = self.add_weight(
            name="bias", shape=(self.embedding.input_dim,), initializer="zeros"
        )

    def call(self, inputs, training=False):
        hidden = self.norm(self.dense(inputs))  # (..., E)
        return logits_of(hidden, self.embedding, self.bias, training)  # (..., V)

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.embedding.input_dim)

    def compute_output_spec(self, inputs, training=False):
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype="float32")

    def compute_mask(self, inputs, previous_mask):
        return None  # the loss knows by its label what counts

    def get_config(self):
        return {**super().get_config(), "embedding": serialize_shared(self.embedding)}

    @classmethod
    def from_config(cls, config):
        embedding = deserialize_shared(config["embedding"])
        return cls(**{**config, "embedding": embedding})
