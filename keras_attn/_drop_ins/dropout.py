from typing import Any

import keras

from keras_attn._backend.dropout_of_levels import dropout_of_levels
from keras_attn._types import Tensor

LEVELS = 2**8
"""Number of values of the random integers: the rate of a call is a multiple of 1 / LEVELS."""


@keras.saving.register_keras_serializable(package="keras_attn")
class Dropout(keras.layers.Dropout):
    """Faster version of `keras.layers.Dropout` on TensorFlow.

    Introduced by [Srivastava et al., 2014](https://jmlr.org/papers/v15/srivastava14a.html). Keras
    samples one float per value. Here, one random integer serves four values, and the gradient is a
    single product. On other backends, and with a `noise_shape`, the implementation of Keras is
    used.

    Args:
        rate: Float in [0, 1], fraction of the values that become 0. The other values are scaled so
            that the expected sum is unchanged. On TensorFlow, each call uses one of the two
            adjacent multiples of 1/256, chosen at random so that their mean is the rate.
        **kwargs: Arguments of `keras.layers.Dropout`, such as `seed` and `noise_shape`.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Bool, whether dropout is active. Defaults to `False`.

    Returns:
        Tensor of the shape of `inputs`.

    Example:

    >>> import numpy as np
    >>> dropped = Dropout(0.5, seed=1)(np.ones((2, 3), "float32"), training=True)
    >>> sorted(set(np.array(dropped).ravel().tolist()))
    [0.0, 2.0]
    """

    def call(self, inputs: Tensor, training: bool = False) -> Any:
        if (
            keras.backend.backend() != "tensorflow"
            or not training
            or not 0 < self.rate <= 1 - 1 / LEVELS
            or self.noise_shape is not None
        ):
            return super().call(inputs, training=training)
        return dropout_of_levels(inputs, self.rate, self.seed_generator.next(), LEVELS)
