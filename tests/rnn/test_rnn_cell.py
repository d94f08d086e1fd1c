import keras
import numpy as np
import pytest

from keras_attn import RNNCell
from keras_attn.testing import check_layer
from tests import oracles
from tests.contracts import assert_close, numpy, randomize

INPUTS = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")


def test_is_a_good_layer_inside_keras_rnn():
    check_layer(
        lambda: keras.layers.RNN(RNNCell(5, output_units=2), return_sequences=True),
        {"sequences": INPUTS},
    )


def test_equals_the_equations_with_its_state_passed_in_and_out():
    cell = RNNCell(5, output_units=2)
    state = np.random.default_rng(1).normal(size=(2, 5)).astype("float32")
    cell(INPUTS[:, 0], [state])
    randomize(cell)
    weights = [
        numpy(each) for each in (cell.kernel, cell.recurrent_kernel, cell.bias, cell.output_kernel)
    ]
    received = [state]
    expected = [[row] for row in state]
    for t in range(4):
        output, received = cell(INPUTS[:, t], received)
        for b in range(2):
            expected_output, expected[b] = oracles.rnn_step(INPUTS[b, t], expected[b], *weights)
            assert_close(numpy(output)[b], expected_output)
            assert_close(numpy(received[0])[b], expected[b][0])


def test_activation_and_initializers_are_those_asked_for():
    cell = RNNCell(
        3,
        activation="relu",
        kernel_initializer="ones",
        recurrent_initializer="ones",
        bias_initializer=keras.initializers.Constant(-20.0),
    )
    output, (state,) = cell(np.ones((1, 3), "float32"), [np.ones((1, 3), "float32")])
    assert cell.output_units == 3
    assert not numpy(state).any() and not numpy(output).any()  # relu(3 + 3 - 20)


def test_equals_keras_simple_rnn_where_the_output_matrix_is_the_identity():
    ours = keras.layers.RNN(RNNCell(5), return_sequences=True, return_state=True)
    keras_own = keras.layers.SimpleRNN(5, return_sequences=True, return_state=True)
    ours(INPUTS), keras_own(INPUTS)
    randomize(keras_own)
    ours.set_weights([*keras_own.get_weights(), np.eye(5)])
    mask = np.array([[True, True, True, False], [True, False, True, True]])
    received, expected = numpy(ours(INPUTS, mask=mask)), numpy(keras_own(INPUTS, mask=mask))
    assert_close(received[0][mask], expected[0][mask])
    assert_close(received[1], expected[1])


def test_stacks_with_other_cells():
    cells = [RNNCell(5, output_units=2), keras.layers.GRUCell(4), RNNCell(3, output_units=6)]
    layer = keras.layers.RNN(cells, return_state=True)
    outputs, *states = numpy(layer(INPUTS))
    assert outputs.shape == (2, 6)
    assert [np.shape(state)[-1] for state in states] == [5, 4, 3]


@pytest.mark.parametrize("name", ["units", "output_units"])
@pytest.mark.parametrize("value", [0, -3, 1.5, "4"])
def test_sizes_must_be_positive_integers(name, value):
    with pytest.raises(ValueError, match=f"{name} to be a positive integer. Received: {name}="):
        RNNCell(**{"units": 4, name: value})
