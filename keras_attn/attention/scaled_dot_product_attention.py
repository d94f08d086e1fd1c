import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.attention.attention_mechanism import AttentionMechanism, check_same_size


@keras.saving.register_keras_serializable(package="keras_attn")
class ScaledDotProductAttention(AttentionMechanism):
    """Dot-product attention scaled by 1 / sqrt(D).

        e_ts = q_t . k_s / sqrt(D)

    Introduced by [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 1. The dot
    product of two vectors with D independent components of variance 1 has variance D; the scale
    makes it 1. The layer has no weights. `MultiHeadAttention` adds projections and several heads.

    Args:
        kernel_initializer: Ignored: the mechanism has no weights. Defaults to `"glorot_uniform"`.
        probability_fn: String, the function that turns scores into weights: `"softmax"`,
            `"sparsemax"` or `"hardmax"`, see `AttentionMechanism`. Defaults to `"softmax"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query: Tensor of shape `(batch, target, query_dim)`.
        value: Tensor of shape `(batch, source, value_dim)`.
        key: Tensor of shape `(batch, source, key_dim)`. Defaults to `value`.
        attention_mask: Boolean tensor of shape `(batch, source)` or `(batch, target, source)`;
            `True` marks positions that may be attended to. It is combined with `value_mask`.
        return_attention_scores: Bool, whether to also return the attention weights. Defaults to
            `False`.
        value_mask: Boolean tensor of shape `(batch, source)`, the implicit mask of `value`. Keras
            passes it.
        mask: Must be `None`: the single mask that a Keras wrapper passes cannot be assigned to
            `value`.

    Returns:
        The context, of shape `(batch, target, value_dim)`. If `return_attention_scores=True`, a
        tuple of the context and the weights, of shape `(batch, target, source)`.

    Masking:
        Masked positions get a weight of exactly 0. A query that may attend to no position gets zero
        weights and a zero context. A mask of the queries has no effect.

    Raises:
        ValueError: If query and key have different sizes.

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
