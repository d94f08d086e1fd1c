"""Steps of Keras cells in NumPy, with the weights of the cells."""

from functools import partial

import keras

from keras_attn import RNNCell
from tests import oracles
from tests.contracts import numpy
from tests.rnn.minimal_cell import MinimalCell

STEPS = {
    keras.layers.LSTMCell: oracles.lstm_step,
    keras.layers.GRUCell: oracles.gru_step,
    keras.layers.SimpleRNNCell: oracles.simple_rnn_step,
    RNNCell: oracles.rnn_step,
    MinimalCell: oracles.linear_rnn_step,
}


def numpy_step(cell):
    if isinstance(cell, keras.layers.StackedRNNCells):
        return partial(oracles.stacked_step, steps=[numpy_step(each) for each in cell.cells])
    names = ["kernel", "recurrent_kernel", "bias", "output_kernel"]
    weights = {name: numpy(getattr(cell, name)) for name in names if hasattr(cell, name)}
    return partial(STEPS[type(cell)], **weights)


def top(state):
    """The hidden state of the only or of the last cell."""
    return state[-1][0] if isinstance(state[-1], list) else state[0]
