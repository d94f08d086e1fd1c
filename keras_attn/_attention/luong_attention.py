from typing import Any

import keras
from keras import ops

from keras_attn._attention.additive_score import additive_score
from keras_attn._attention.attention_mechanism import AttentionMechanism, check_same_size
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import InitializerLike, Tensor
from keras_attn_checks.number_types import is_integer


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class LuongAttention(AttentionMechanism):
    """Attention with a dot, general or concat score.

        dot      e_ts = q_t . k_s
        general  e_ts = q_t . W k_s
        concat   e_ts = v . tanh(W [q_t ; k_s])

    The scores were introduced in section 3.1 of [Luong et al.,
    2015](https://arxiv.org/abs/1508.04025). The matrix of `concat` is stored as two matrices, W [q
    ; k] = W_q q + W_k k, so that the keys are projected once per sequence.

    Args:
        score: String, `"dot"`, `"general"` or `"concat"`. Defaults to `"general"`.
        units: Positive int, number of rows of W. Required for `"concat"`, ignored for all other
            scores. Defaults to `None`.
        scale: Bool, whether the scores are multiplied by a learned scalar that is initialized to 1.
            Defaults to `False`.
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
        ValueError: If `score` is unknown, `units` is missing for `"concat"`, or query and key have
            different sizes for `"dot"`.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LuongAttention
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(LuongAttention("general")(query, value).shape)
    (2, 3, 4)
    """

    def __init__(
        self,
        score: str = "general",
        units: int | None = None,
        *,
        scale: bool = False,
        kernel_initializer: InitializerLike = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(kernel_initializer=kernel_initializer, **kwargs)
        if score not in ("dot", "general", "concat"):
            raise ValueError(
                f'Expected score to be "dot", "general" or "concat". Received: score={score!r}.'
            )
        if score == "concat" and (not is_integer(units) or units < 1):
            raise ValueError(
                'Expected units to be a positive integer for score="concat". Received: '
                f"units={units}."
            )
        self.score = score
        self.units = units
        self.scale = scale

    def build_weights(self, query_dim: int, key_dim: int) -> None:
        if self.score == "dot":
            check_same_size(query_dim, key_dim)
        if self.score == "general":
            self.key_kernel = self.add_kernel("key_kernel", (key_dim, query_dim))
        if self.score == "concat":
            self.query_kernel = self.add_kernel("query_kernel", (query_dim, self.units))
            self.key_kernel = self.add_kernel("key_kernel", (key_dim, self.units))
            self.vector = self.add_kernel("vector", (self.units, 1))
        if self.scale:
            self.gain = self.add_weight(name="gain", shape=(), initializer="ones")

    def project_keys(self, key: Tensor) -> Tensor:
        return key if self.score == "dot" else ops.matmul(key, self.key_kernel)  # (B, S, ...)

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        if self.score == "concat":
            query = ops.matmul(query, self.query_kernel)  # (B, T, U)
            scores = additive_score(query, keys, self.vector[:, 0])
        else:
            scores = ops.matmul(query, ops.transpose(keys, (0, 2, 1)))  # (B, T, S)
        return scores * self.gain if self.scale else scores

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "score": self.score,
            "units": self.units,
            "scale": self.scale,
        }
