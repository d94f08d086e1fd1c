import keras
import numpy as np
import pytest

from keras_attn import SequencePooling
from keras_attn.testing import check_layer
from tests.contracts import assert_close, numpy

INPUTS = {
    "encoder_outputs": np.random.default_rng(1).normal(size=(3, 4, 5)).astype("float32"),
    "encoder_mask": np.arange(4) < np.array([[4], [2], [0]]),
}
OUTPUTS = INPUTS["encoder_outputs"]


def test_is_a_good_layer():
    check_layer(SequencePooling, INPUTS, masked={"encoder_outputs": "encoder_mask"})


def test_the_mean_is_that_of_the_real_positions():
    pooled = numpy(SequencePooling()(**INPUTS))
    expected = [OUTPUTS[0].mean(axis=0), OUTPUTS[1, :2].mean(axis=0), np.zeros(5)]
    assert_close(pooled, np.stack(expected))
    assert_close(numpy(SequencePooling()(OUTPUTS)), OUTPUTS.mean(axis=1))


@pytest.mark.parametrize("mask", [None, np.ones((1, 4000), bool)])
def test_the_mean_of_a_long_sequence_is_finite_in_half_precision(mask):
    ones = np.ones((1, 4000, 2), "float32")
    pooled = numpy(SequencePooling(dtype="mixed_float16")(30 * ones, mask))
    np.testing.assert_array_equal(pooled, np.full((1, 2), 30, "float16"))


def test_the_implicit_mask_counts():
    ids = np.array([[3, 4, 0, 0]])
    vectors = keras.layers.Embedding(6, 3, mask_zero=True)(ids)
    assert_close(numpy(SequencePooling()(vectors)), numpy(vectors)[:, :2].mean(axis=1))


def test_first_is_the_first_position():
    assert_close(numpy(SequencePooling("first")(**INPUTS)), OUTPUTS[:, 0])


def test_refuses_an_unknown_name():
    with pytest.raises(ValueError, match="Received: pooling='last'"):
        SequencePooling("last")
