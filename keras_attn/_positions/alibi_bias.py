import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.layer import Layer
from keras_attn._masks import wide_dtype
from keras_attn._positions.position_range import check_position_shapes
from keras_attn._types import StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AlibiBias(Layer):
    """Attention bias proportional to the distance between query and key (ALiBi).

        b[h, t, s] = -m_h |t - s|,  m_h = 2^(-8h/H),  h = 1 ... H

    The bias was introduced by [Press et al., 2022](https://arxiv.org/abs/2108.12409), section 3,
    for causal attention. The absolute value makes the bias symmetric in bidirectional attention. If
    H is not a power of two, the layer uses the slopes for the next lower power of two, followed by
    every second slope for the next higher one, as in the authors' implementation. The layer has no
    weights.

    Args:
        num_heads: Positive int, number of heads H.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        query_positions: Int32 tensor of shape `(1 or batch, target)`.
        key_positions: Int32 tensor of shape `(1 or batch, source)`.

    Returns:
        Tensor of shape `(1 or batch, num_heads, target, source)`. Add it to the scores before
        masking. Its dtype is float64 for a float64 layer, otherwise float32, because float16 cannot
        represent large distances. If you pass the tensor to a layer in half precision, Keras casts
        it to half precision.

    Masking:
        The layer does not use masks. Attention masks the scores after it adds the bias.

    Raises:
        ValueError: If `num_heads` is not a positive integer, or the rank of the positions is not 2.

    Example:

    >>> import numpy as np
    >>> from keras import ops
    >>> from keras_attn import AlibiBias
    >>> bias = AlibiBias(2)(np.array([[3]]), np.array([[0, 1, 2]]))
    >>> ops.convert_to_numpy(bias)[0, 0].tolist()
    [[-0.1875, -0.125, -0.0625]]
    """

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive_integer("num_heads", num_heads)
        self.num_heads = num_heads

    def build(self, query_positions_shape: StaticShape, key_positions_shape: StaticShape) -> None:
        check_position_shapes(query_positions_shape, key_positions_shape)
        self.slopes = alibi_slopes(self.num_heads).astype(wide_dtype(self.compute_dtype))

    def call(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        differences = ops.expand_dims(query_positions, 2) - ops.expand_dims(key_positions, 1)
        differences = ops.cast(differences, wide_dtype(self.compute_dtype))  # LiteRT: no int64 abs
        distances = ops.abs(differences)  # (1 or B, T, S)
        factors = ops.convert_to_tensor(-self.slopes[:, None, None])  # (H, 1, 1)
        return ops.expand_dims(distances, 1) * factors  # (1 or B, H, T, S)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_heads": self.num_heads}


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Returns the slopes m_h for all heads, a float64 array of shape `(num_heads,)`."""
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = 2.0 ** (-8.0 / power * np.arange(1, power + 1))
    between = 2.0 ** (-8.0 / (2 * power) * np.arange(1, 2 * power, 2))
    return np.concatenate([slopes, between])[:num_heads]
