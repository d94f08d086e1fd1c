from typing import Any

import keras
from keras import ops

from keras_attn._attention.additive_stateful_attention import AdditiveStatefulAttention
from keras_attn._attention.attention_mechanism import AttentionMechanism
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.fill_docstring import fill_docstring
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
@fill_docstring(AttentionMechanism)
class LocationSensitiveAttention(AdditiveStatefulAttention):
    """Additive attention with convolutional features of previous attention weights.

        f_t  = F * a_{t-1}
        e_ts = v . tanh(W_q q_t + W_k k_s + U f_ts + b)

    Here F * a is a convolution of the attention weights with the filters F. The mechanism was
    introduced by [Chorowski et al., 2015](https://arxiv.org/abs/1506.07503), equations 8 and 9, for
    speech recognition. The features help the model to move on to the next sound, even if similar
    sounds occur repeatedly. With `cumulative=True`, the input of the convolution is the sum of all
    previous weights, as in Tacotron 2 ([Shen et al., 2018](https://arxiv.org/abs/1712.05884),
    section 2.2).

    Args:
        units: Positive int, size of the projected queries and keys.
        filters: Positive int, number of features per position, the rows of F. Defaults to `32`.
        kernel_size: Positive int, width of the convolution in positions. Defaults to `31`.
        cumulative: Bool. Whether the features are computed from the sum of all previous weights
            (`True`) or from the previous step's weights (`False`). Defaults to `False`.
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
        ValueError: If `units`, `filters` or `kernel_size` is not a positive integer.

    Example:

    >>> import numpy as np
    >>> from keras_attn import LocationSensitiveAttention
    >>> layer = LocationSensitiveAttention(units=8, filters=4, kernel_size=5)
    >>> query, value = np.ones((2, 3, 5), "float32"), np.ones((2, 7, 4), "float32")
    >>> tuple(layer(query, value).shape)
    (2, 3, 4)
    """

    def __init__(
        self,
        units: int,
        filters: int = 32,
        *,
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
        # Multiply F and U first: the convolution then has `units` outputs, and no second product is
        # needed.
        kernel = ops.matmul(self.filter_kernel, self.feature_kernel)  # (kernel_size, 1, U)
        # (B*K, S, U)
        features = ops.conv(rows, kernel, padding="same", data_format="channels_last")
        return ops.reshape(features, (batch, beams, source, self.units))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "cumulative": self.cumulative,
        }
