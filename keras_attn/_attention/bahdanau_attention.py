from typing import Any

import keras
from keras import ops

from keras_attn._attention.additive_score import additive_score
from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import InitializerLike, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class BahdanauAttention(AttentionMechanism):
    """Additive attention with learned projections of queries and keys.

        e_ts = v . tanh(W_q q_t + W_k k_s)

    The mechanism was introduced by [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473),
    appendix A.1.2. With `normalize=True`, the vector v is weight-normalized ([Salimans and Kingma,
    2016](https://arxiv.org/abs/1602.07868), equation 2):

        e_ts = g v / |v| . tanh(W_q q_t + W_k k_s + b)

    As in TensorFlow Addons, g is initialized to sqrt(1 / units), and b is initialized to 0.

    `keras.layers.AdditiveAttention` computes the first equation without the projections W_q and
    W_k.

    Args:
        units: Positive int, size of the projected queries and keys.
        normalize: Bool, whether v is weight-normalized. Defaults to `False`.
        kernel_initializer: Initializer for W_q, W_k and v. Defaults to `"glorot_uniform"`.
        chunk_size: Positive int, number of keys that are scored at a time. Chunks save memory if
            many queries attend to a long sequence: the layer then never creates a tensor of shape
            `(batch, target, source, units)`, in inference and in training. On JAX, forward mode
            (`jax.jvp`, `jax.jacfwd`) then raises a `TypeError`. Defaults to `None`: all keys at
            once.
        probability_fn: String, the function that maps scores to weights: `"softmax"`,
            `"sparsemax"` or `"hardmax"`, see `AttentionMechanism`. Defaults to `"softmax"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        {{call_arguments}}

    Returns:
        {{returns}}

    Masking:
        Masked positions get a weight of exactly 0. If all positions are masked for a query, its
        weights and its context are 0. Query masks are ignored.

    Raises:
        ValueError: If `units` or `chunk_size` is not a positive integer, or an input does not have
            rank 3.

    Example:

    >>> import numpy as np
    >>> from keras_attn import BahdanauAttention
    >>> layer = BahdanauAttention(units=8)
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> context, weights = layer(query, value, return_attention_scores=True)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 4), (2, 3, 7))
    """

    def __init__(
        self,
        units: int,
        normalize: bool = False,
        *,
        kernel_initializer: InitializerLike = "glorot_uniform",
        chunk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(kernel_initializer=kernel_initializer, **kwargs)
        check_positive_integer("units", units)
        if chunk_size is not None:
            check_positive_integer("chunk_size", chunk_size)
        self.units = units
        self.normalize = normalize
        self.chunk_size = chunk_size

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        self.query_kernel = self.add_kernel("query_kernel", (query_dim, self.units))
        self.key_kernel = self.add_kernel("key_kernel", (key_dim, self.units))
        self.vector = self.add_kernel("vector", (self.units, 1))
        self.gain = self.bias = None
        if self.normalize:
            gain = keras.initializers.Constant(self.units**-0.5)
            self.gain = self.add_weight(name="gain", shape=(), initializer=gain)
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")

    def project_keys(self, key: Tensor) -> Tensor:
        return ops.matmul(key, self.key_kernel)  # (B, S, U)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        vector = self.vector[:, 0]  # (U,)
        if self.normalize:
            vector = vector * (self.gain / ops.sqrt(ops.sum(vector * vector)))
        query = ops.matmul(query, self.query_kernel)  # (B, T, U)
        return additive_score(query, keys, vector, self.bias, self.chunk_size)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "normalize": self.normalize,
            "chunk_size": self.chunk_size,
        }
