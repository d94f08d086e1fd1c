from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor


def projection_operands(
    features: Tensor, layer: Any, bias: Tensor | None = None
) -> tuple[Any, Any]:
    """Returns the operands of the matrix product for logits.

    Args:
        features: Tensor of shape `(..., D)`.
        layer: Layer that maps features to logits. `is_projection(layer)` must be `True`.
        bias: Tensor of shape `(V,)`, added to the layer's output, or `None`. V is the vocabulary
            size.

    Returns:
        Tuple of features `(..., F)` and a kernel `(V, F)`, both in the layer's compute dtype. For
        each bias, a column is appended to the kernel and a 1 is appended to the features. So F is D
        plus the number of biases.
    """
    dtype = layer.compute_dtype
    features = ops.cast(features, dtype)
    if isinstance(layer, keras.layers.Dense):
        kernel, biases = ops.transpose(layer.kernel), [layer.bias, bias]
    elif layer.tie_weights:
        kernel, biases = layer.embeddings, [bias]
    else:
        kernel, biases = ops.transpose(layer.reverse_embeddings), [bias]
    kernel = ops.cast(kernel, dtype)  # (V, D)
    for bias in biases:
        if bias is not None:
            features = ops.concatenate([features, ops.ones_like(features[..., :1])], axis=-1)
            bias = ops.cast(ops.expand_dims(bias, -1), dtype)  # (V, 1)
            kernel = ops.concatenate([kernel, bias], axis=-1)
    return features, kernel


def compute_logits(features: Tensor, layer: Any, bias: Tensor | None = None) -> Tensor:
    """Computes float32 logits from features.

    Args:
        features: Tensor of shape `(..., D)`.
        layer: `keras.layers.ReversibleEmbedding`, called with `reverse=True`, or any other layer.
        bias: Tensor of shape `(V,)`, added in float32, or `None`.

    Returns:
        Float32 tensor of shape `(..., V)`.
    """
    if not isinstance(layer, keras.layers.ReversibleEmbedding):
        logits = layer(features)
    elif is_projection(layer):
        # Do not call the layer: the result would depend on the calling layer's autocast dtype.
        operand, kernel = projection_operands(features, layer)
        logits = ops.matmul(operand, ops.transpose(kernel))
    else:
        logits = layer(features, reverse=True)
    logits = ops.cast(logits, "float32")
    if bias is not None:
        logits = logits + ops.cast(bias, "float32")
    return logits


def is_projection(layer: Any) -> bool:
    """Returns whether a layer only computes a matrix product and adds a bias."""
    if type(layer) is keras.layers.Dense:
        is_linear = layer.activation is keras.activations.linear
    elif type(layer) is keras.layers.ReversibleEmbedding:
        is_linear = layer.logit_soft_cap is None and layer.reverse_dtype is None
    else:
        return False
    return is_linear and layer.quantization_mode is None


def can_fuse_projection(layer: Any) -> bool:
    """Returns whether a loss can compute a layer's logits in chunks.

    The result is `False` for float16, because the sum of gradients over all tokens can overflow
    before it is divided by the number of tokens.
    """
    return is_projection(layer) and layer.compute_dtype != "float16"
