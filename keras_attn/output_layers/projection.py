from typing import Any

import keras
from keras import ops

from keras_attn._types import Tensor


def projection_operands(
    features: Tensor, layer: Any, bias: Tensor | None = None
) -> tuple[Any, Any]:
    """The operands of the matrix product that computes logits.

    Args:
        features: `(..., D)`.
        layer: layer that maps features to logits, one for which `is_projection` is True.
        bias: optional `(V,)`, added to the results of the layer.

    Returns:
        Tuple of features `(..., F)` and a kernel `(V, F)`, both in the compute dtype of the layer.
        F is D, and one more for each bias, which is the kernel's column for a feature that is 1.
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


def project(features: Tensor, layer: Any, bias: Tensor | None = None) -> Tensor:
    """float32 logits `(..., V)` of features `(..., D)`.

    Args:
        features: `(..., D)`.
        layer: a `keras.layers.ReversibleEmbedding`, which is used in reverse, or another layer.
        bias: optional `(V,)`, added in float32.

    Returns:
        float32 `(..., V)`.
    """
    if not isinstance(layer, keras.layers.ReversibleEmbedding):
        logits = layer(features)
    elif is_projection(layer):
        # Keras' own takes the precision of whatever layer calls it, and its weights are float32.
        operand, kernel = projection_operands(features, layer)
        logits = ops.matmul(operand, ops.transpose(kernel))
    else:
        logits = layer(features, reverse=True)
    logits = ops.cast(logits, "float32")
    if bias is not None:
        logits = logits + ops.cast(bias, "float32")
    return logits


def is_projection(layer: Any) -> bool:
    """Whether a layer does nothing but multiply with a kernel, and add a bias."""
    if type(layer) is keras.layers.Dense:
        is_linear = layer.activation is keras.activations.linear
    elif type(layer) is keras.layers.ReversibleEmbedding:
        is_linear = layer.logit_soft_cap is None and layer.reverse_dtype is None
    else:
        return False
    return is_linear and layer.quantization_mode is None


def can_fuse_projection(layer: Any) -> bool:
    """Whether a loss can compute the logits of a layer block by block.

    Not in float16: a gradient that is summed up before it is divided by the number of tokens may be
    more than it can hold.
    """
    return is_projection(layer) and layer.compute_dtype != "float16"
