import keras
from keras import ops

from keras_attn._attention.attention_mechanism import AttentionMechanism, check_same_size
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class ScaledDotProductAttention(AttentionMechanism):
    """Dot-product attention scaled by 1 / sqrt(D).

        e_ts = q_t . k_s / sqrt(D)

    The mechanism was introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762),
    equation 1. Here D is the size of queries and keys. If all components of a query and a key are
    independent with mean 0 and variance 1, their dot product has the variance D, and the scaled
    score has the variance 1. The layer has no weights. `MultiHeadAttention` adds projections and
    several heads.

    Args:
        kernel_initializer: Ignored: the mechanism has no weights. Defaults to `"glorot_uniform"`.
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
        ValueError: If query and key have different sizes.

    Example:

    >>> import numpy as np
    >>> from keras_attn import ScaledDotProductAttention
    >>> layer = ScaledDotProductAttention()
    >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        check_same_size(query_dim, key_dim)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        query = query * query.shape[-1] ** -0.5
        return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))  # (B, T, S)
