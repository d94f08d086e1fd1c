from typing import Any

import keras
from keras import ops

from keras_attn._backend.symbolic import is_symbolic
from keras_attn._types import Tensor


class Projection:
    """What logits are a product of, and what a loss found out about them.

    Args:
        features: `(..., D)`.
        layer: the layer that multiplies features with a kernel, one that `only_multiplies`.
        bias: optional `(V,)`, what is added to what the layer returns.
    """

    def __init__(
        self, features: Tensor, layer: keras.layers.Layer, bias: Tensor | None = None
    ) -> None:
        self.features = features
        self.layer = layer
        self.bias = bias
        self.seen: Any = (
            None  # labels, the class that does not count, and statistics for the others
        )

    def operands(self) -> Any:
        """Features `(..., F)` and a kernel `(V, F)` whose product are the logits.

        F is D, and one more for each bias, which is the kernel's column for a feature that is 1.
        """
        layer, dtype = self.layer, self.layer.compute_dtype
        features = ops.cast(self.features, dtype)
        if isinstance(layer, keras.layers.Dense):
            kernel, biases = ops.transpose(layer.kernel), [layer.bias, self.bias]
        elif layer.tie_weights:
            kernel, biases = layer.embeddings, [self.bias]
        else:
            kernel, biases = ops.transpose(layer.reverse_embeddings), [self.bias]
        kernel = ops.cast(kernel, dtype)  # (V, D)
        for bias in biases:
            if bias is not None:
                features = ops.concatenate([features, ops.ones_like(features[..., :1])], axis=-1)
                bias = ops.cast(ops.expand_dims(bias, -1), dtype)  # (V, 1)
                kernel = ops.concatenate([kernel, bias], axis=-1)
        return features, kernel


def logits_of(
    features: Tensor,
    layer: keras.layers.Layer,
    bias: Tensor | None = None,
    training: bool = False,
) -> Tensor:
    """float32 logits `(..., V)` of features `(..., D)`; in a training they know of what, see below.

    Args:
        features: `(..., D)`.
        layer: a `keras.layers.ReversibleEmbedding`, which is used in reverse, or another layer.
        bias: optional `(V,)`, added in float32.
        training: bool.
    """
    if not isinstance(layer, keras.layers.ReversibleEmbedding):
        logits = layer(features)
    elif only_multiplies(layer):
        # Keras' own takes the precision of whatever layer calls it, and its weights are float32.
        operand, kernel = Projection(features, layer).operands()
        logits = ops.matmul(operand, ops.transpose(kernel))
    else:
        logits = layer(features, reverse=True)
    logits = ops.cast(logits, "float32")
    if bias is not None:
        logits = logits + ops.cast(bias, "float32")
    if training and is_projection(layer):
        remember_projection(logits, features, layer, bias)
    return logits


def only_multiplies(layer: keras.layers.Layer) -> bool:
    """Whether a layer does nothing but multiply with a kernel, and add a bias."""
    if type(layer) is keras.layers.Dense:
        linear = layer.activation is keras.activations.linear
    elif type(layer) is keras.layers.ReversibleEmbedding:
        linear = layer.logit_soft_cap is None and layer.reverse_dtype is None
    else:
        return False
    return linear and layer.quantization_mode is None


def is_projection(layer: keras.layers.Layer) -> bool:
    """Whether a loss need not use the logits of a layer.

    Not in float16: a gradient that is summed up before it is divided by the number of tokens may be
    more than it can hold.
    """
    return only_multiplies(layer) and layer.compute_dtype != "float16"


def remember_projection(
    logits: Tensor, features: Tensor, layer: keras.layers.Layer, bias: Tensor | None = None
) -> None:
    """Notes on logits, in a graph of TensorFlow, what they are a product of.

    A loss that knows it need not use the logits, and TensorFlow does not compute what nobody uses.
    Whatever is made of the logits knows nothing of it, so nothing else changes. (Keras leaves its
    masks on tensors in the same way.)
    """
    if is_symbolic(logits):
        setattr(logits, "_keras_attn_projection", Projection(features, layer, bias))  # noqa: B010


def projection_of(logits: Tensor) -> Projection | None:
    """The `Projection` that was noted on logits, or `None`."""
    return getattr(logits, "_keras_attn_projection", None)
