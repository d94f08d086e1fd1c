import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tests")
class MinimalCell(keras.layers.Layer):
    """The minimal cell that Keras supports, as in the documentation of `keras.layers.RNN`.

    h_t = x_t W + h_{t-1} U, with an integer as `state_size` and no `get_initial_state`.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.state_size = units

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), name="kernel")
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, self.units), name="recurrent_kernel"
        )

    def call(self, inputs, states):
        output = ops.matmul(inputs, self.kernel) + ops.matmul(states[0], self.recurrent_kernel)
        return output, [output]

    def get_config(self):
        return {**super().get_config(), "units": self.units}
