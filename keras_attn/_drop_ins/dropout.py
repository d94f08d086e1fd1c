import random
from typing import Any

import keras

from keras_attn._backend.dropout_of_levels import dropout_of_levels
from keras_attn._layer.argument_checks import check_seed
from keras_attn._types import Tensor

LEVELS = 2**8
"""Number of random levels. The dropout rate of a call is a multiple of 1 / LEVELS."""


@keras.saving.register_keras_serializable(package="keras_attn")
class Dropout(keras.layers.Dropout):
    """Faster version of `keras.layers.Dropout` on TensorFlow.

    Dropout was introduced by [Srivastava et al.,
    2014](https://jmlr.org/papers/v15/srivastava14a.html). Keras samples one random float for each
    value. This layer samples one random integer for four values, and computes the gradient with a
    single product. On other backends, or with a `noise_shape`, the layer uses the implementation of
    Keras.

    Args:
        rate: Float in [0, 1], probability that a value is replaced by 0. All other values are
            scaled, so that the expected sum is unchanged. On TensorFlow, each call rounds the rate
            up or down to a multiple of 1/256 at random, so that the mean is the exact rate.
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

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any
    ) -> None:
        check_seed(seed)
        drawn = seed
        if seed is None and keras.backend.backend() == "torch":
            # Without a seed, Keras uses the global generator of PyTorch instead of the state of the
            # layer. Resumed training would then sample different numbers than uninterrupted
            # training.
            drawn = random.randint(1, 10**9)
        super().__init__(rate, noise_shape, drawn, **kwargs)
        self.seed = seed

    def call(self, inputs: Tensor, training: bool = False) -> Any:
        if (
            keras.backend.backend() != "tensorflow"
            or not training
            or not 0 < self.rate <= 1 - 1 / LEVELS
            or self.noise_shape is not None
        ):
            return super().call(inputs, training=training)
        return dropout_of_levels(inputs, self.rate, self.seed_generator.next(), LEVELS)
