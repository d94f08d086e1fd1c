import keras
from keras import ops

from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class LinearScoreAttention(AttentionMechanism):
    """Attention with a linear score of query and key.

        e_ts = w_q . q_t + w_k . k_s + b

    This is the additive score of [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473) without
    the tanh and the vector v. The query term is the same for all positions, so it has no effect
    after the softmax: all queries get the same weights. Use the layer for learned pooling, as a
    baseline, or as the base class of a score with more terms.

    Args:
        kernel_initializer: Initializer for the weight matrices. Defaults to `"glorot_uniform"`.
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
        ValueError: If `probability_fn` is unknown, `value` is missing, or an input does not have
            rank 3.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LinearScoreAttention
    >>> layer = LinearScoreAttention()
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        self.query_kernel = self.add_kernel("query_kernel", (query_dim, 1))
        self.key_kernel = self.add_kernel("key_kernel", (key_dim, 1))
        self.bias = self.add_weight(name="bias", shape=(1,), initializer="zeros")

    def project_keys(self, key: Tensor) -> Tensor:
        return ops.matmul(key, self.key_kernel)  # (B, S, 1)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query = ops.matmul(query, self.query_kernel) + self.bias  # (B, T, 1)
        # Use indexing instead of a transposition. If a transposition of an axis of size 1 follows a
        # matrix product, the optimizers of tf2onnx replace the transposition by a wrong reshape.
        return query + keys[:, :, 0][:, None]  # (B, T, S)
