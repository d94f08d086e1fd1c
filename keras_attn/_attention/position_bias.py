"""Position-dependent biases of attention scores."""

from typing import cast

import keras
from keras import ops

from keras_attn._layer.ensure_built import ensure_built
from keras_attn._masks import finite_scores, wide_dtype
from keras_attn._types import PositionBias, Tensor, TensorLike


def check_position_bias(position_bias: PositionBias | None) -> None:
    """Raises a `ValueError` for a layer with weights, because functional models do not track it."""
    if isinstance(position_bias, keras.layers.Layer):
        ensure_built(position_bias, (None, None), (None, None))
        if position_bias.weights:
            raise ValueError(
                "Expected position_bias to be a tensor or a layer without weights, because a "
                "functional model does not track the weights of a layer that is an argument. "
                f"Received: position_bias={position_bias}. Call the layer on the positions, and "
                "pass its output."
            )


def compute_position_bias(
    position_bias: PositionBias | None, query_positions: Tensor, key_positions: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Returns the bias for pairs of query and key positions, and a mask.

    Args:
        position_bias: Layer or function of query positions and key positions, the tensor that this
            function returns, or `None`.
        query_positions: Int32 tensor of shape `(1 or batch, target)`.
        key_positions: Int32 tensor of shape `(1 or batch, source)`.

    Returns:
        Result of `finite_bias`.
    """
    if callable(position_bias):
        return finite_bias(position_bias(query_positions, key_positions))
    return finite_bias(cast(Tensor | None, position_bias))


def finite_bias(bias: TensorLike | None) -> tuple[Tensor | None, Tensor | None]:
    """Separates a bias into finite values and a mask of the values that are minus infinity.

    Args:
        bias: Float tensor or array that can be broadcast to `(batch, heads, target, source)`, or
            `None`.

    Returns:
        Tuple of the bias in float32 or float64, and a boolean tensor, both of rank 4. Both are
        `None` if `bias` is `None`.
    """
    if bias is None:
        return None, None
    bias = ops.convert_to_tensor(bias)
    for _ in range(4 - len(bias.shape)):
        bias = ops.expand_dims(bias, 0)
    return finite_scores(bias)


def add_biases(bias: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Returns the sum of two biases in float32 or float64. `None` is no bias."""
    if bias is None or other is None:
        return other if bias is None else bias
    dtype = wide_dtype(bias, other)
    return ops.cast(bias, dtype) + ops.cast(other, dtype)
