import functools
from typing import Any, cast

import keras
from keras import ops

from keras_attn._backend.custom_gradient import custom_gradient
from keras_attn._backend.float64 import mean
from keras_attn._backend.sum_over_rows import sum_over_rows
from keras_attn._types import Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class LayerNormalization(keras.layers.LayerNormalization):
    """Layer normalization that trains 1.5 times faster than the Keras layer on TensorFlow.

        n  = (x - mean x) / sqrt(var x + epsilon)
        y  = gamma n + beta
        dx = (h - mean h - n mean(h n)) / sqrt(var x + epsilon),    h = gamma dy

    Here dy is the gradient of the loss with respect to the outputs, and dx is the gradient with
    respect to the inputs. The mean and the variance (var) are over the last axis.

    Layer normalization was introduced by [Ba et al., 2016](https://arxiv.org/abs/1607.06450). The
    custom gradient dx needs fewer tensors of the size of the inputs than the gradient of Keras.
    Outside of training, on other backends, and for axes other than the last axis, the layer uses
    the implementation of Keras.

    Args:
        **kwargs: Arguments of `keras.layers.LayerNormalization`.

    Call arguments:
        inputs: Float tensor of shape `(..., features)`.
        training: Bool, whether the faster version may be used. Defaults to `False`.

    Returns:
        Tensor of the shape of `inputs`.

    Example:

    >>> import numpy as np
    >>> normalized = LayerNormalization()(np.array([[1.0, 3.0]], "float32"), training=True)
    >>> np.array(normalized).round(2).tolist()
    [[-1.0, 1.0]]
    """

    def call(self, inputs: Tensor, training: bool = False) -> Any:
        (axis, *more_axes) = cast(list[int], self.axis)  # a list after the layer is built
        over_last_axis = axis in (-1, len(inputs.shape) - 1) and not more_axes
        is_plain = over_last_axis and self.scale and self.center and not self.rms_scaling
        if is_plain and self.compute_dtype == "float64" and keras.backend.backend() == "jax":
            # The layer of Keras rounds the variance to float32.
            return _normalize(inputs, self.gamma, self.beta, self.epsilon)[0]
        if (
            not training
            or keras.backend.backend() != "tensorflow"
            or self.compute_dtype == "float64"
            or not is_plain
        ):
            return super().call(inputs)
        normalize = custom_gradient(functools.partial(_normalize, epsilon=self.epsilon), _gradients)
        x, gamma, beta = (ops.cast(tensor, "float32") for tensor in (inputs, self.gamma, self.beta))
        outputs, _ = normalize(x=x, gamma=gamma, beta=beta)
        return ops.cast(outputs, self.compute_dtype)


def _normalize(x, gamma, beta, epsilon):
    centered = x - mean(x, axis=-1, keepdims=True)  # (..., D)
    variance = mean(ops.square(centered), axis=-1, keepdims=True)  # (..., 1)
    scale = ops.rsqrt(variance + epsilon)  # (..., 1)
    normalized = centered * scale  # (..., D)
    return normalized * gamma + beta, (normalized, scale)


def _gradients(residuals, upstream, gamma, **_):
    normalized, scale = residuals
    inner = upstream * gamma  # (..., D)
    of_mean = mean(inner, axis=-1, keepdims=True)  # (..., 1)
    of_scale = mean(inner * normalized, axis=-1, keepdims=True)  # (..., 1)
    return {
        "x": (inner - of_mean - normalized * of_scale) * scale,  # (..., D)
        "gamma": sum_over_rows(upstream * normalized),  # (D,)
        "beta": sum_over_rows(upstream),  # (D,)
    }
