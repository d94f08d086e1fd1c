import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.attention.attention_mechanism import AttentionMechanism, check_same_size


@keras.saving.register_keras_serializable(package="keras_attn")
class ScaledDotProductAttention(AttentionMechanism):
    """Dot product, divided by the length that it has by chance.

        e_ts = q_t . k_s / sqrt(D)

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 1: of vectors
    whose D components are independent with variance 1, the dot product has variance D. It has no
    weights; `MultiHeadAttention` is the same with projections and several heads.

    Args:
        **kwargs: arguments of `AttentionMechanism`.

    Call arguments, returns, masking: see `AttentionMechanism`. Query and key have one size.

    Raises:
        ValueError: if query and key differ in size.

    Example:

    >>> import numpy as np
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
