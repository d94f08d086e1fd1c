import keras
import numpy as np
import pytest

from keras_attn._positions.learned_positions import LearnedPositions
from keras_attn.testing import check_layer
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy, randomize
from tests.positions.layer_checks import check_compiled, check_export, check_start_index

INPUTS = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
MAX_LENGTH = 12


def built():
    layer = LearnedPositions(MAX_LENGTH)
    layer(INPUTS)
    return randomize(layer)


@pytest.mark.parametrize("start", [0, 7])
def test_adds_the_rows_of_its_table(start):
    layer = built()
    (table,) = layer.get_weights()
    assert table.shape == (MAX_LENGTH, 4)
    expected = INPUTS + table[start : start + 5]
    assert_close(numpy(layer(INPUTS, start_index=start)), expected, 1e-6)


@pytest.mark.parametrize("start", [0, 7, np.array([0, 2, 7], "int32")], ids=str)
def test_offset_skips_the_first_rows_of_the_table(start):
    layer, plain = LearnedPositions(MAX_LENGTH, offset=2), built()
    layer(INPUTS)
    (table,) = randomize(layer).get_weights()
    assert table.shape == (MAX_LENGTH + 2, 4)
    plain.set_weights([table[2:]])
    received = numpy(layer(INPUTS, start_index=start))
    assert_close(received, numpy(plain(INPUTS, start_index=start)), 1e-6)
    assert layer.max_length == MAX_LENGTH


def test_start_index():
    check_start_index(built(), INPUTS, axis=1)


def test_is_a_good_layer():
    def make_layer():
        return LearnedPositions(MAX_LENGTH, embeddings_initializer="glorot_uniform")

    check_layer(make_layer, {"inputs": INPUTS})
    check_layer(make_layer, {"inputs": INPUTS, "start_index": np.array([0, 2, 7], "int32")})


def test_compiled():
    check_compiled(built(), INPUTS, (None, 4))


@requires_tensorflow("the export starts from a TensorFlow graph")
def test_export(tmp_path):
    assert len(check_export(built(), INPUTS, (None, 4), tmp_path / "model.onnx")) <= 10


def test_unknown_positions_outside_the_table_get_its_ends():
    layer = built()
    (table,) = layer.get_weights()
    received = numpy(layer(INPUTS, start_index=np.array([9, 40, -2], "int32"))) - INPUTS
    assert_close(received[0], table[[9, 10, 11, 11, 11]])
    assert_close(received[1], table[[11] * 5])
    assert_close(received[2], table[[0, 0, 0, 1, 2]])


@requires_tensorflow("other backends know all sizes")
def test_an_unknown_length_beyond_the_table_gets_its_last_row():
    import tensorflow as tf

    layer = built()
    (table,) = layer.get_weights()
    function = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 4), "float32")])
    received = numpy(function(np.zeros((1, 15, 4), "float32")))[0]
    assert_close(received, table[[*range(12), 11, 11, 11]])


def test_known_positions_outside_the_table_are_refused():
    layer = built()
    with pytest.raises(ValueError, match="max_length - 1 = 11. Received: start_index=8 and 5 tim"):
        layer(INPUTS, start_index=8)
    with pytest.raises(ValueError, match="Received: start_index=-1 and 5 time steps"):
        layer(INPUTS, start_index=-1)
    with pytest.raises(ValueError, match="Received: start_index=0 and 13 time steps"):
        layer(keras.Input((13, 4)))


def test_unknown_sizes_are_not_refused_when_a_model_is_made():
    assert LearnedPositions(2)(keras.Input((None, 4)), start_index=1).shape == (None, None, 4)


@pytest.mark.parametrize("max_length", [0, 2.5, None])
def test_a_wrong_max_length_is_refused(max_length):
    with pytest.raises(ValueError, match="positive integer. Received: max_length="):
        LearnedPositions(max_length)


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"Received: inputs with shape \(2, 4\)"):
        LearnedPositions(3)(np.zeros((2, 4), "float32"))
