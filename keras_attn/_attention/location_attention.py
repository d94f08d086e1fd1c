from typing import Any

import keras
from keras import ops

from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import Mask, Tensor, TensorDict


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class LocationAttention(AttentionMechanism):
    """Location-based attention: the scores only depend on the query.

        e_ts = w_s . q_t                                                    (s < max_length)

    The mechanism was introduced by [Luong et al., 2015](https://arxiv.org/abs/1508.04025), equation
    8. If the source has fewer than `max_length` positions, only the first scores are used, as in
    the paper. If the source has more positions, the additional positions get a weight of 0.

    Args:
        max_length: Positive int, number of source positions that can be attended to.
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
        ValueError: If `max_length` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LocationAttention
    >>> layer = LocationAttention(max_length=50)
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive_integer("max_length", max_length)
        self.max_length = max_length

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        self.kernel = self.add_kernel("kernel", (query_dim, self.max_length))

    def prepare_memory(
        self, value: Tensor, key: Tensor | None = None, attention_mask: Mask | None = None
    ) -> TensorDict:
        memory = super().prepare_memory(value, key, attention_mask)
        is_within = (
            ops.arange(ops.shape(memory["values"])[1], dtype="int32") < self.max_length
        )  # (S,)
        return {**memory, "mask": memory["mask"] & is_within}  # (B, 1 or T, S)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        positions = ops.minimum(
            ops.arange(ops.shape(keys)[1], dtype="int32"), self.max_length - 1
        )  # (S,)
        return ops.matmul(query, ops.take(self.kernel, positions, axis=1))  # (B, T, S)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
