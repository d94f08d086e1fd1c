import numpy as np
import pytest
from keras import tree

from keras_attn import StateBridge
from keras_attn.testing import check_layer
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(0)
OUTPUTS = GENERATOR.normal(size=(2, 4, 3)).astype("float32")
MASK = np.array([[True, True, False, False], [True] * 4])


def states(*sizes):
    return [GENERATOR.normal(size=(2, size)).astype("float32") for size in sizes]


STATE = [states(3, 3), states(5)]
JOINED = np.concatenate(tree.flatten(STATE), axis=-1)


def test_copy_gives_the_states_as_they_are():
    received = StateBridge([[3, 3], [5]], "copy")(OUTPUTS, MASK, STATE)
    assert_close(numpy(received), STATE, 0)


def test_copy_arranges_the_states_as_the_decoder_needs_them():
    received = StateBridge([3, [3, 5]], "copy")(OUTPUTS, MASK, STATE)
    assert_close(numpy(received), [STATE[0][0], [STATE[0][1], STATE[1][0]]], 0)


def test_a_dict_of_states_is_taken_in_the_order_of_its_names():
    named = {"h": STATE[0][0], "c": STATE[1][0]}
    received = StateBridge([5, 3], "copy")(OUTPUTS, MASK, named)
    assert_close(numpy(received), [named["c"], named["h"]], 0)


@pytest.mark.parametrize("encoder_state", [STATE, [STATE[0]], None])
def test_copy_refuses_states_that_do_not_fit(encoder_state):
    with pytest.raises(ValueError, match='encoder sizes=.* decoder sizes=.*Use mode="dense"'):
        StateBridge([[3, 3], [4]], "copy")(OUTPUTS, MASK, encoder_state)


def test_dense_is_a_layer_over_all_states():
    bridge = StateBridge([[6, 2], 4])
    bridge(OUTPUTS, MASK, STATE)
    randomize(bridge)
    received = numpy(bridge(OUTPUTS, MASK, STATE))
    expected = [
        np.tanh(JOINED @ numpy(layer.kernel) + numpy(layer.bias)) for layer in bridge.dense_layers
    ]
    assert_close(received, [[expected[0], expected[1]], expected[2]])


@pytest.mark.parametrize("mode", ["copy", "dense"])
def test_a_state_cannot_be_left_out_where_there_was_one(mode):
    bridge = StateBridge([4], mode=mode)
    outputs = np.ones((2, 3, 4), "float32")
    bridge(outputs, encoder_state=[np.ones((2, 4), "float32")])
    with pytest.raises(ValueError, match="Expected an encoder_state"):
        bridge(outputs)


@pytest.mark.parametrize("mask", [MASK, None])
def test_dense_takes_the_mean_of_the_outputs_of_an_encoder_without_state(mask):
    bridge = StateBridge([6])
    bridge(OUTPUTS, mask)
    randomize(bridge)
    real = np.ones((2, 4), "bool") if mask is None else mask
    mean = np.stack([OUTPUTS[b, real[b]].mean(axis=0) for b in range(2)])
    (layer,) = bridge.dense_layers
    expected = np.tanh(mean @ numpy(layer.kernel) + numpy(layer.bias))
    assert_close(numpy(bridge(OUTPUTS, mask)), [expected])


def test_dense_of_a_source_of_nothing_is_finite():
    (received,) = numpy(StateBridge([6])(OUTPUTS, np.zeros((2, 4), "bool")))
    assert (received == 0).all()


@pytest.mark.parametrize("encoder_state", [STATE, None])
def test_zero_gives_zeros(encoder_state):
    received = numpy(StateBridge([[6, 2], 4], "zero")(OUTPUTS, MASK, encoder_state))
    assert [leaf.shape for leaf in tree.flatten(received)] == [(2, 6), (2, 2), (2, 4)]
    assert not any(leaf.any() for leaf in tree.flatten(received))


def test_is_a_good_layer():
    inputs = {"encoder_outputs": OUTPUTS, "encoder_mask": MASK}
    check_layer(lambda: StateBridge([[6, 2], 4]), {**inputs, "encoder_state": STATE})
    check_layer(lambda: StateBridge([6, 4]), inputs, masked={"encoder_outputs": "encoder_mask"})


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode to be one of .* Received: mode='average'"):
        StateBridge([4], "average")
