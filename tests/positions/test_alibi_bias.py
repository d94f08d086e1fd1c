import numpy as np
import pytest

from keras_attn._positions.alibi_bias import AlibiBias, alibi_slopes
from keras_attn.testing import check_layer
from tests import position_oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy
from tests.positions.bias_checks import (
    KEY_POSITIONS,
    QUERY_POSITIONS,
    check_batches,
    check_compiled,
    check_export,
)


@pytest.mark.parametrize("num_heads", range(1, 34))
def test_slopes_equal_the_recipe(num_heads):
    slopes = alibi_slopes(num_heads)
    assert slopes.dtype == "float64"
    assert_close(slopes, np.array(position_oracles.alibi_slopes(num_heads)), 1e-6)


def test_slopes_that_the_paper_prints():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert_close(alibi_slopes(16), 2.0 ** (np.arange(1, 17) / -2), 1e-6)


@pytest.mark.parametrize("num_heads", [1, 4, 6])
def test_equals_the_equation(num_heads):
    check_batches(
        AlibiBias(num_heads),
        lambda queries, keys: position_oracles.alibi_bias(num_heads, queries, keys),
    )


def test_is_a_good_layer():
    inputs = {"query_positions": QUERY_POSITIONS, "key_positions": KEY_POSITIONS}
    check_layer(lambda: AlibiBias(3), inputs, mixed_dtype="float32")


def test_half_precision_holds_large_distances():
    far = np.array([[70001]], "int32")
    bias = numpy(AlibiBias(8, dtype="mixed_float16")(far, np.zeros((1, 1), "int32")))
    assert bias.dtype == "float32"
    assert bias[0, 0, 0, 0] == -70001 / 2


def test_has_no_weights_and_compiles():
    layer = AlibiBias(3)
    check_compiled(layer)
    assert not layer.weights


@requires_tensorflow("the export starts from a TensorFlow graph")
def test_export(tmp_path):
    assert len(check_export(AlibiBias(3), tmp_path / "model.onnx")) <= 7


@pytest.mark.parametrize("num_heads", [0, 1.5])
def test_a_wrong_number_of_heads_is_refused(num_heads):
    with pytest.raises(ValueError, match="positive integer. Received: num_heads="):
        AlibiBias(num_heads)


def test_positions_of_another_rank_are_refused():
    with pytest.raises(ValueError, match=r"Received: query_positions with shape \(3,\)"):
        AlibiBias(2)(QUERY_POSITIONS[0], KEY_POSITIONS)
    with pytest.raises(ValueError, match=r"Received: key_positions with shape \(6,\)"):
        AlibiBias(2)(QUERY_POSITIONS, KEY_POSITIONS[0])
