"""The backend under test: skip marks, gradients and precision."""

import keras
import numpy as np
import pytest

from keras_attn.testing._arrays import dtype_policy as precision

__all__ = ["gradients_of", "precision", "requires_tensorflow"]


def requires_tensorflow(reason):
    """Returns a mark that skips a test on other backends, with a reason."""
    return pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason=reason)


def gradients_of(function, *arrays):
    """Returns the value of a scalar function of arrays, and its gradients, as NumPy arrays."""
    if keras.backend.backend() == "jax":
        import jax

        positions = tuple(range(len(arrays)))
        value, gradients = jax.jit(jax.value_and_grad(function, positions))(*arrays)
        return np.asarray(value), [np.asarray(gradient) for gradient in gradients]
    if keras.backend.backend() == "torch":
        import torch

        tensors = [keras.ops.copy(array).requires_grad_() for array in arrays]
        value = function(*tensors)
        gradients = torch.autograd.grad(value, tensors)
        to_numpy = keras.ops.convert_to_numpy
        return to_numpy(value), [to_numpy(gradient) for gradient in gradients]
    import tensorflow as tf

    @tf.function
    def value_and_gradients(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        return value, tape.gradient(value, tensors)

    value, gradients = value_and_gradients(*map(tf.constant, arrays))
    return value.numpy(), [gradient.numpy() for gradient in gradients]
