from typing import Any

import keras
from keras import ops

from keras_attn._attention.attention_mechanism import AttentionMechanism, check_same_size
from keras_attn._layer.argument_checks import check_positive_number
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._masks import wide_dtype
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class CosineAttention(AttentionMechanism):
    """Attention with the cosine similarity of query and key as score.

        e_ts = g q_t . k_s / (|q_t| |k_s|)

    This is the content-based addressing of neural Turing machines ([Graves et al.,
    2014](https://arxiv.org/abs/1410.5401), equations 5 and 6). Here the factor g is a trainable
    scalar: a larger g concentrates the attention weights on fewer positions. Vector lengths do not
    affect the weights.

    Args:
        initial_sharpness: Positive float, initial value of g. With `1.0`, a query's largest weight
            is at most e^2 times its smallest weight. Defaults to `10.0`.
        kernel_initializer: Ignored: the mechanism has no weight matrices. Defaults to
            `"glorot_uniform"`.
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
        ValueError: If `initial_sharpness` is not positive, or query and key have different sizes.

    Example:

    >>> import numpy as np
    >>> from keras_attn import CosineAttention
    >>> layer = CosineAttention()
    >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(self, initial_sharpness: float = 10.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive_number(initial_sharpness=initial_sharpness)
        self.initial_sharpness = initial_sharpness

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        check_same_size(query_dim, key_dim)
        initializer = keras.initializers.Constant(self.initial_sharpness)
        self.sharpness = self.add_weight(name="sharpness", shape=(), initializer=initializer)

    def project_keys(self, key: Tensor) -> Tensor:
        return _unit_length(key)  # (B, S, D)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        cosines = ops.matmul(_unit_length(query), ops.transpose(keys, (0, 2, 1)))  # (B, T, S)
        return self.sharpness * cosines

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_sharpness": self.initial_sharpness}


def _unit_length(vectors):
    """Divides vectors `(..., D)` by their length. A zero vector remains zero."""
    # Compute in float32: the reciprocal length of a zero vector exceeds the range of float16.
    wide = ops.cast(vectors, wide_dtype(vectors))
    squares = ops.sum(ops.square(wide), axis=-1, keepdims=True)
    return ops.cast(wide * ops.rsqrt(squares + 1e-12), vectors.dtype)
