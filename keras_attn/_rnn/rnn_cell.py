from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_attn._backend.float64 import activate
from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._layer.ensure_built import build_activation
from keras_attn._layer.layer import Layer
from keras_attn._serialization.clone_initializer import clone_initializer
from keras_attn._serialization.plain_function import plain_function
from keras_attn._types import ActivationLike, InitializerLike, StaticShape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RNNCell(Layer):
    """Simple recurrent cell with an output layer.

        h_t = tanh(W_xh x_t + W_hh h_{t-1} + b)
        y_t = W_hy h_t

    This is the network of [Elman, 1990](https://doi.org/10.1207/s15516709cog1402_1).
    `keras.layers.SimpleRNNCell` has no output layer; its output is h_t.

    Args:
        units: Positive int, size of the state h.
        output_units: Positive int, size of the output y. Defaults to `units`.
        activation: Activation function for the state. Defaults to `"tanh"`.
        kernel_initializer: Initializer for W_xh and W_hy. Defaults to `"glorot_uniform"`.
        recurrent_initializer: Initializer for W_hh. Defaults to `"orthogonal"`.
        bias_initializer: Initializer for b. Defaults to `"zeros"`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        inputs: Tensor of shape `(batch, features)`, the input at one time step.
        states: List with one tensor of shape `(batch, units)`, the previous state.

    Returns:
        Tuple of the output `(batch, output_units)` and a list with the new state `(batch, units)`.

    Raises:
        ValueError: If `units` or `output_units` is not a positive integer.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import RNNCell
    >>> layer = keras.layers.RNN(RNNCell(4, output_units=3), return_sequences=True)
    >>> tuple(layer(np.ones((2, 5, 7), "float32")).shape)
    (2, 5, 3)
    """

    def __init__(
        self,
        units: int,
        output_units: int | None = None,
        *,
        activation: ActivationLike = "tanh",
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        output_units = units if output_units is None else output_units
        for name, value in (("units", units), ("output_units", output_units)):
            check_positive_integer(name, value)
        self.units = units
        self.output_units = output_units
        self.activation = plain_function(keras.activations.get(activation))
        self.kernel_initializer = plain_function(keras.initializers.get(kernel_initializer))
        self.recurrent_initializer = plain_function(keras.initializers.get(recurrent_initializer))
        self.bias_initializer = plain_function(keras.initializers.get(bias_initializer))
        self.state_size = [units]
        self.output_size = output_units

    def build(self, input_shape: StaticShape) -> None:
        build_activation(self.activation, (input_shape[0], self.units))
        kernel_initializer = clone_initializer(self.kernel_initializer, "output_kernel")
        self.kernel = self.add_weight(
            name="kernel", shape=(input_shape[-1], self.units), initializer=self.kernel_initializer
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.units, self.units),
            initializer=self.recurrent_initializer,
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer=self.bias_initializer
        )
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(self.units, self.output_units),
            initializer=kernel_initializer,
        )

    def call(self, inputs: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        (state,) = states
        state = activate(
            self.activation,
            ops.matmul(inputs, self.kernel) + ops.matmul(state, self.recurrent_kernel) + self.bias,
        )  # (B, units)
        return ops.matmul(state, self.output_kernel), [state]  # (B, output_units)

    def get_initial_state(self, batch_size: int | Tensor | None = None) -> list[Tensor]:
        return [ops.zeros((batch_size, self.units), dtype=self.compute_dtype)]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "output_units": self.output_units,
            "activation": keras.activations.serialize(self.activation),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }
