from typing import Any

import keras
from keras import ops

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._types import Tensor
from keras_attn.attention.additive_feedback_attention import AdditiveFeedbackAttention


@keras.saving.register_keras_serializable(package="keras_attn")
class LocationSensitiveAttention(AdditiveFeedbackAttention):
    """Additive attention that sees where the step before has looked, through a convolution.

        f_t  = F * a_{t-1}
        e_ts = v . tanh(W_q q_t + W_k k_s + U f_ts + b)

    Introduced by [Chorowski et al., 2015](https://arxiv.org/abs/1506.07503), equations 8 and 9, for
    speech, where alignments move on and alike sounds come again. With `cumulative=True` the
    convolution sees the sum of all alignments before, as in Tacotron 2 ([Shen et al.,
    2018](https://arxiv.org/abs/1712.05884), section 2.2).

    Args:
        units: int, size of the space in which queries and keys are compared.
        filters: int, features of each position, rows of F. Default 32.
        kernel_size: int, positions that each feature sees. Default 31.
        cumulative: bool. Default `False`.
        **kwargs: arguments of `AttentionMechanism`.

    Call arguments, returns, masking: see `FeedbackAttention`.

    Raises:
        ValueError: if `units`, `filters` or `kernel_size` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> layer = LocationSensitiveAttention(units=8, filters=4, kernel_size=5)
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(
        self,
        units: int,
        filters: int = 32,
        kernel_size: int = 31,
        cumulative: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, cumulative, **kwargs)
        check_positive_integer("filters", filters)
        check_positive_integer("kernel_size", kernel_size)
        self.filters = filters
        self.kernel_size = kernel_size

    def build_features(self) -> None:
        self.filter_kernel = self.add_kernel("filter_kernel", (self.kernel_size, 1, self.filters))
        self.feature_kernel = self.add_kernel("feature_kernel", (self.filters, self.units))

    def compute_features(self, alignments: Tensor) -> Tensor:
        batch, beams, source = ops.shape(alignments)
        rows = ops.reshape(alignments, (-1, source, 1))  # (B*K, S, 1)
        # One filter for both products: a position has units, not filters, features.
        kernel = ops.matmul(self.filter_kernel, self.feature_kernel)  # (kernel_size, 1, U)
        features = ops.conv(rows, kernel, padding="same", data_format="channels_last")
        return ops.reshape(features, (batch, beams, source, self.units))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "cumulative": self.cumulative,
        }
