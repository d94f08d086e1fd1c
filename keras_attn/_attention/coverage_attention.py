from typing import Any

import keras
from keras import ops

from keras_attn._attention.additive_stateful_attention import AdditiveStatefulAttention
from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class CoverageAttention(AdditiveStatefulAttention):
    """Additive attention with a coverage vector, the sum of all previous weights.

        c_ts = sum_{t' < t} a_t's
        e_ts = v . tanh(W_q q_t + W_k k_s + w_c c_ts + b)

    The mechanism was introduced by [See et al., 2017](https://arxiv.org/abs/1704.04368), equations
    10 and 11, to avoid repetitions in summaries. To add the coverage loss from equation 12, set the
    argument `coverage_loss` in `RNNDecoder`.

    Args:
        units: Positive int, size of the projected queries and keys.
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
        ValueError: If `units` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> from keras_attn import CoverageAttention
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(CoverageAttention(units=8)(query, value).shape)
    (2, 3, 4)
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, cumulative=True, **kwargs)

    def build_features(self) -> None:
        self.coverage_kernel = self.add_kernel("coverage_kernel", (1, self.units))

    def compute_features(self, alignments: Tensor) -> Tensor:
        return ops.expand_dims(alignments, -1) * self.coverage_kernel  # (B, K, S, U)
