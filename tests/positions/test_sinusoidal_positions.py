import keras
import numpy as np
import pytest

from keras_attn._positions.sinusoidal_positions import SinusoidalPositions
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.positions.layer_checks import check_compiled, check_export, check_start_index

INPUTS = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
LAYOUTS = ("interleaved", "halves", "marian")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("max_wavelength", [10000.0, 50])
@pytest.mark.parametrize("features", [4, 6, 8])
def test_equals_the_equations(layout, max_wavelength, features):
    layer = SinusoidalPositions(layout, max_wavelength)
    inputs = np.random.default_rng(1).normal(size=(2, 60, features)).astype("float32")
    encoding = position_oracles.SINUSOIDAL[layout]
    expected = inputs + np.array([encoding(t, features, max_wavelength) for t in range(60)])
    assert_close(numpy(layer(inputs)), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_far_positions(layout):
    expected = position_oracles.SINUSOIDAL[layout](5000, 8)
    received = numpy(SinusoidalPositions(layout)(np.zeros((1, 1, 8), "float32"), start_index=5000))
    assert_close(received[0, 0], expected, 5e-4)  # float32 has 4 digits behind the point of 5000


@pytest.mark.parametrize("features", [1, 3, 7])
def test_interleaved_odd_features_end_in_a_sine(features):
    inputs = np.zeros((1, 4, features), "float32")
    expected = np.array([position_oracles.sinusoidal_interleaved(t, features) for t in range(4)])
    assert_close(numpy(SinusoidalPositions()(inputs))[0], expected)


def test_two_features_are_one_sine_and_cosine():
    received = numpy(SinusoidalPositions()(np.zeros((1, 3, 2), "float32")))[0]
    assert_close(received, np.array([[np.sin(t), np.cos(t)] for t in range(3)]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_start_index(layout):
    check_start_index(SinusoidalPositions(layout), INPUTS, axis=1)


@pytest.mark.parametrize("start", [0, 3, np.array([0, 2, 9], "int32")], ids=str)
def test_offset_is_added_to_the_start_index(start):
    expected = numpy(SinusoidalPositions("halves")(INPUTS, start_index=start + 2))
    received = numpy(SinusoidalPositions("halves", offset=2)(INPUTS, start_index=start))
    assert_close(received, expected)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_is_a_good_layer(layout):
    def make_layer():
        return SinusoidalPositions(layout, 100.0, offset=int(layout == "halves"))

    check_layer(make_layer, {"inputs": INPUTS})
    check_layer(make_layer, {"inputs": INPUTS, "start_index": np.array([0, 2, 9], "int32")})


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_compiled(layout):
    check_compiled(SinusoidalPositions(layout), INPUTS, (None, 8))


def test_half_precision_holds_far_positions():
    """The angle 2049 does not exist in float16: it must be computed in float32."""
    layer = SinusoidalPositions(dtype="mixed_float16")
    received = numpy(layer(np.zeros((1, 1, 8), "float32"), start_index=2049))
    assert received.dtype == "float16"
    expected = position_oracles.sinusoidal_interleaved(2049, 8)
    np.testing.assert_allclose(received[0, 0], expected, atol=1e-3)


def test_the_mask_is_passed_on():
    ids = np.array([[4, 5, 0]])
    embedded = keras.layers.Embedding(6, 4, mask_zero=True)(ids)
    pooled = keras.layers.GlobalAveragePooling1D()  # a mean over what is not masked
    received = numpy(pooled(SinusoidalPositions()(embedded)))
    encoding = [position_oracles.sinusoidal_interleaved(t, 4) for t in range(2)]
    assert_close(received[0], np.mean(numpy(embedded)[0, :2] + encoding, axis=0))


@requires_tensorflow("the export starts from a TensorFlow graph")
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_export(layout, tmp_path):
    layer = SinusoidalPositions(layout, offset=2 * (layout == "halves"))
    operators = check_export(layer, INPUTS, (None, 8), tmp_path / "model.onnx")
    assert operators.count("Sin") == operators.count("Cos") == 1 and len(operators) <= 17


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="'halves', 'marian'\\). Received: layout='sines'"):
        SinusoidalPositions("sines")


@pytest.mark.parametrize("max_wavelength", [0, -1.0])
def test_a_wavelength_that_is_not_positive_is_refused(max_wavelength):
    with pytest.raises(ValueError, match="max_wavelength to be a positive finite number"):
        SinusoidalPositions(max_wavelength=max_wavelength)


@pytest.mark.parametrize("features", [2, 5])
def test_halves_need_an_even_number_of_features(features):
    with pytest.raises(ValueError, match=f"even .* >= 4 .* Received: features={features}."):
        SinusoidalPositions("halves")(np.zeros((1, 2, features), "float32"))


def test_marian_positions_need_an_even_number_of_features():
    with pytest.raises(ValueError, match="even number .* Received: features=5."):
        SinusoidalPositions("marian")(np.zeros((1, 2, 5), "float32"))


@pytest.mark.parametrize("offset", [-1, 1.5, None])
def test_a_wrong_offset_is_refused(offset):
    with pytest.raises(ValueError, match="offset to be an integer of at least 0. Received: offset"):
        SinusoidalPositions(offset=offset)


def test_inputs_of_another_size_are_refused():
    layer = SinusoidalPositions()
    layer(np.ones((1, 2, 8), "float32"))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 8"):
        layer(np.ones((1, 2, 6), "float32"))


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"Received: inputs with shape \(2, 4\)"):
        SinusoidalPositions()(np.zeros((2, 4), "float32"))
