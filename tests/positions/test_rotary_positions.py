import numpy as np
import pytest

from keras_attn._positions.rotary_positions import RotaryPositions
from keras_attn._positions.rotary_scaling import (
    LinearRotaryScaling,
    Llama3RotaryScaling,
    YarnRotaryScaling,
)
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.positions.layer_checks import check_compiled, check_export, check_start_index

HEADS = np.random.default_rng(0).normal(size=(3, 2, 5, 6)).astype("float32")
LAYOUTS = ("halves", "interleaved")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("max_wavelength", [10000.0, 50])
@pytest.mark.parametrize("start", [0, 30])
def test_equals_the_equations(layout, max_wavelength, start):
    layer = RotaryPositions(max_wavelength, layout)
    expected = np.zeros(HEADS.shape)
    for b, h, t in np.ndindex(HEADS.shape[:3]):
        expected[b, h, t] = position_oracles.rotary(
            HEADS[b, h, t], start + t, layout, max_wavelength
        )
    assert_close(numpy(layer(HEADS, start_index=start)), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_depend_on_the_distance_only(layout):
    """The same vectors everywhere: the score of a query and a key is a function of t - s."""
    layer = RotaryPositions(layout=layout)
    query, key = np.random.default_rng(1).normal(size=(2, 1, 1, 1, 8)).astype("float32")
    queries = numpy(layer(np.repeat(query, 6, axis=2), start_index=10))[0, 0]
    keys = numpy(layer(np.repeat(key, 9, axis=2), start_index=np.array([4])))[0, 0]
    of_distance = {}
    for t, s in np.ndindex(6, 9):
        of_distance.setdefault(10 + t - (4 + s), []).append(queries[t] @ keys[s])
    for scores in of_distance.values():
        assert_close(np.array(scores), np.full(len(scores), scores[0]))
    assert len({round(float(scores[0]), 3) for scores in of_distance.values()}) > 10
    assert_close(of_distance[0][0], query.ravel() @ key.ravel())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_start_index(layout):
    check_start_index(RotaryPositions(layout=layout), HEADS, axis=2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_is_a_good_layer(layout):
    def make_layer():
        return RotaryPositions(100.0, layout)

    heads = HEADS[:, :, :, :4]
    check_layer(make_layer, {"heads": heads[:, :, :3]})
    check_layer(make_layer, {"heads": heads, "start_index": np.array([0, 2, 9], "int32")})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compiled(layout):
    check_compiled(RotaryPositions(layout=layout), HEADS, (2, None, 6))
    check_compiled(RotaryPositions(layout=layout), HEADS, (None, None, 6))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_precision_holds_far_positions(layout):
    layer = RotaryPositions(layout=layout, dtype="mixed_float16")
    received = numpy(layer(HEADS[:1, :1, :1], start_index=2049))
    assert received.dtype == "float16"
    expected = position_oracles.rotary(HEADS[0, 0, 0], 2049, layout)
    np.testing.assert_allclose(received[0, 0, 0], expected, atol=5e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rotation_changes_no_length_and_no_angle(layout):
    """The images of the unit vectors are orthonormal."""
    layer = RotaryPositions(layout=layout)
    inputs = np.eye(6, dtype="float32")[None, None]
    columns = [numpy(layer(inputs[:, :, i : i + 1], start_index=3))[0, 0, 0] for i in range(6)]
    matrix = np.array(columns)
    assert_close(matrix @ matrix.T, np.eye(6))


@requires_tensorflow("the export starts from a TensorFlow graph")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_export(layout, tmp_path):
    layer = RotaryPositions(layout=layout)
    operators = check_export(layer, HEADS, (2, None, 6), tmp_path / "model.onnx")
    assert operators.count("Sin") == operators.count("Cos") == 1 and len(operators) <= 17


SCALINGS = {
    "linear": LinearRotaryScaling(4.0),
    "llama3": Llama3RotaryScaling(8.0, 1.0, 4.0, original_length=64),
    "yarn": YarnRotaryScaling(4.0, original_length=64, beta_fast=8.0),
}


def scaled(name, theta):
    """Frequency of a feature pair `(index, theta)`, from the papers. The base is 10,000."""
    index, theta = theta
    if name == "linear":
        return theta / 4
    rotations = 64 * theta / (2 * np.pi)
    if name == "llama3":
        kept = min(1, max(0, (rotations - 1) / 3))
        return kept * theta + (1 - kept) * theta / 8
    bounds = [6 * np.log(64 / (2 * np.pi * n)) / (2 * np.log(10000)) for n in (8, 1)]
    first, last = np.floor(bounds[0]), np.ceil(bounds[1])
    divided = min(1, max(0, (index - max(0, first)) / (last - max(0, first))))
    return (1 - divided) * theta + divided * theta / 4


@pytest.mark.parametrize("name", SCALINGS)
def test_scaled_frequencies_equal_the_equations(name):
    layer = RotaryPositions(scaling=SCALINGS[name])
    layer.build(HEADS.shape)
    expected = [scaled(name, (i, 10000 ** (-i / 3))) for i in range(3)]
    assert_close(layer.frequencies[3:], np.array(expected))
    again = RotaryPositions.from_config(layer.get_config())
    assert again.scaling == SCALINGS[name]
    assert_close(numpy(again(HEADS)), numpy(layer(HEADS)))


def test_yarn_scales_queries_and_keys():
    lengths = np.linalg.norm(numpy(RotaryPositions(scaling=SCALINGS["yarn"])(HEADS)), axis=-1)
    assert_close(lengths, np.linalg.norm(HEADS, axis=-1) * (0.1 * np.log(4) + 1))
    assert YarnRotaryScaling(0.5, 64).magnitude == 1
    assert YarnRotaryScaling(4.0, 64, attention_factor=2).magnitude == 2


def test_a_configuration_without_scaling_is_read():
    config = RotaryPositions(layout="interleaved").get_config()
    del config["scaling"]  # as in files of earlier versions
    assert RotaryPositions.from_config(config).scaling is None


@requires_tensorflow("the export starts from a TensorFlow graph")
def test_export_with_scaling(tmp_path):
    layer = RotaryPositions(scaling=SCALINGS["yarn"])
    check_export(layer, HEADS, (2, None, 6), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RotaryPositions(scaling=2.0), "LinearRotaryScaling.* Received: scaling=2.0"),
        (lambda: LinearRotaryScaling(0), "factor to be a positive number. Received: factor=0"),
        (lambda: LinearRotaryScaling(True), "Received: factor=True"),
        (lambda: LinearRotaryScaling(float("inf")), "Received: factor=inf"),
        (lambda: Llama3RotaryScaling(8.0, 4.0, 4.0), "above low_frequency_factor=4.0"),
        (lambda: YarnRotaryScaling(4.0, 0), "Received: original_length=0"),
        (lambda: YarnRotaryScaling(4.0, 8, attention_factor=-1.0), "attention_factor=-1.0"),
    ],
)
def test_a_scaling_out_of_range_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match='"halves" or "interleaved". Received: layout=None'):
        RotaryPositions(layout=None)


@pytest.mark.parametrize("max_wavelength", [0, -1.0])
def test_a_wavelength_that_is_not_positive_is_refused(max_wavelength):
    with pytest.raises(ValueError, match="max_wavelength to be a positive finite number"):
        RotaryPositions(max_wavelength)


def test_an_odd_head_dim_is_refused():
    with pytest.raises(ValueError, match="even head_dim.* Received: head_dim=5"):
        RotaryPositions()(HEADS[..., :5])


def test_heads_of_another_size_are_refused():
    layer = RotaryPositions()
    layer(np.ones((1, 2, 3, 8), "float32"))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 8"):
        layer(np.ones((1, 2, 3, 6), "float32"))


def test_heads_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"Received: heads with shape \(2, 5, 6\)"):
        RotaryPositions()(HEADS[0])
