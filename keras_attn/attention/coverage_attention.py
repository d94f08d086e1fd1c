from typing import Any

import keras

from keras_attn._types import Tensor
from keras_attn.attention.additive_feedback_attention import AdditiveFeedbackAttention


@keras.saving.register_keras_serializable(package="keras_attn")
class CoverageAttention(AdditiveFeedbackAttention):
    """Additive attention that sees how much each position has been attended to.

        c_ts = sum_{t' < t} a_t's
        e_ts = v . tanh(W_q q_t + W_k k_s + w_c c_ts + b)

    Introduced by [See et al., 2017](https://arxiv.org/abs/1704.04368), equations 10 and 11, against
    repetitions in summaries. The loss that goes with it, equation 12, is the `coverage_loss` of
    `RNNDecoder`.

    Args:
        units: int, size of the space in which queries and keys are compared.
        **kwargs: arguments of `AttentionMechanism`.

    Call arguments, returns, masking: see `FeedbackAttention`.

    Raises:
        ValueError: if `units` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(CoverageAttention(units=8)(query, value).shape)
    (2, 3, 4)
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, cumulative=True, **kwargs)

    def build_features(self) -> None:
        self.coverage_kernel = self.add_kernel("coverage_kernel", (1, self.units))

    def compute_features(self, alignments: Tensor) -> Tensor:
        return alignments[..., None] * self.coverage_kernel  # (B, K, S, U)
