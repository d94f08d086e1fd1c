import numpy as np
import pytest

from keras_attn import BahdanauAttention
from tests import oracles
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(1)
QUERY = GENERATOR.normal(size=(2, 3, 5)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 7, 4)).astype("float32")
KEY = GENERATOR.normal(size=(2, 7, 6)).astype("float32")
MASK = np.array([[True] * 4 + [False] * 3, [True] * 7])


@pytest.mark.parametrize("normalize", [False, True])
def test_equals_the_equations(normalize):
    layer = BahdanauAttention(8, normalize=normalize)
    layer(QUERY, VALUE, KEY)
    randomize(layer)
    context, weights = layer(QUERY, VALUE, KEY, attention_mask=MASK, return_attention_scores=True)
    arguments = [numpy(layer.query_kernel), numpy(layer.key_kernel), numpy(layer.vector)[:, 0]]
    if normalize:
        arguments += [numpy(layer.gain), numpy(layer.bias)]
    for b in range(2):
        scores = oracles.bahdanau_scores(QUERY[b], KEY[b], *arguments)
        expected = oracles.attend(scores, VALUE[b], MASK[b])
        assert_close((numpy(context)[b], numpy(weights)[b]), expected)


def test_normalized_weights_start_as_in_tensorflow_addons():
    layer = BahdanauAttention(16, normalize=True)
    layer(QUERY, VALUE)
    assert_close(numpy(layer.gain), 0.25)
    assert not numpy(layer.bias).any()


def test_normalizing_takes_the_length_of_the_vector_away():
    layer = BahdanauAttention(8, normalize=True)
    expected = numpy(layer(QUERY, VALUE))
    layer.vector.assign(layer.vector * 7.0)
    assert_close(numpy(layer(QUERY, VALUE)), expected)


@pytest.mark.parametrize("units", [0, -1, 2.5, None, "8"])
def test_units_must_be_a_positive_integer(units):
    with pytest.raises(ValueError, match="units to be a positive integer. Received: units="):
        BahdanauAttention(units)
