from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor
from keras_attn.attention.attention_mechanism import AttentionMechanism, check_same_size
from keras_attn.masks import wide_dtype


@keras.saving.register_keras_serializable(package="keras_attn")
class CosineAttention(AttentionMechanism):
    """Attention by the angle between query and key, with a learned sharpness.

        e_ts = g q_t . k_s / (|q_t| |k_s|)

    The content-based addressing of the neural Turing machine ([Graves et al.,
    2014](https://arxiv.org/abs/1410.5401), equations 5 and 6), whose sharpness g is a weight here:
    long vectors have no more say than short ones, and g alone decides how peaked the weights are.

    Args:
        initial_sharpness: float > 0, what g starts from. With 1 the largest weight is at most e^2
            times the smallest. Default 10.
        **kwargs: arguments of `AttentionMechanism`.

    Call arguments, returns, masking: see `AttentionMechanism`. Query and key have one size.

    Raises:
        ValueError: if `initial_sharpness` is not positive, or query and key differ in size.

    Example:

    >>> import numpy as np
    >>> layer = CosineAttention()
    >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(self, initial_sharpness: float = 10.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not initial_sharpness > 0:
            raise ValueError(
                "initial_sharpness must be positive. "
                f"Received: initial_sharpness={initial_sharpness}."
            )
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
    """Vectors `(..., D)` divided by their length; a vector of zeros stays one."""
    # float16 cannot hold the factor of a vector of zeros.
    wide = ops.cast(vectors, wide_dtype(vectors))
    squares = ops.sum(ops.square(wide), axis=-1, keepdims=True)
    return ops.cast(wide * ops.rsqrt(squares + 1e-12), vectors.dtype)
