"""Mechanisms with little but a score, against their equations."""

import keras
import numpy as np
import pytest

from keras_attn import (
    CosineAttention,
    LinearScoreAttention,
    LocationAttention,
    ScaledDotProductAttention,
)
from tests import oracles
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(1)
QUERY = GENERATOR.normal(size=(2, 3, 6)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 7, 4)).astype("float32")
KEY = GENERATOR.normal(size=(2, 7, 6)).astype("float32")
MASK = np.array([[True] * 4 + [False] * 3, [True] * 7])


def linear_scores(layer, query, key):
    kernel = np.concatenate([numpy(layer.query_kernel), numpy(layer.key_kernel)])[:, 0]
    return oracles.linear_scores(query, key, kernel, numpy(layer.bias)[0])


SCORES = {
    "scaled dot product": (
        ScaledDotProductAttention,
        lambda layer, query, key: oracles.scaled_dot_scores(query, key),
    ),
    "cosine": (
        CosineAttention,
        lambda layer, query, key: oracles.cosine_scores(query, key, numpy(layer.sharpness)),
    ),
    "linear": (LinearScoreAttention, linear_scores),
    "location": (
        lambda: LocationAttention(9),
        lambda layer, query, key: oracles.location_scores(query, key, numpy(layer.kernel)),
    ),
}


@pytest.mark.parametrize("name", SCORES)
def test_equals_the_equations(name):
    make_layer, scores_of = SCORES[name]
    layer = make_layer()
    layer(QUERY, VALUE, KEY)
    randomize(layer)
    memory = layer.prepare_memory(VALUE, KEY, MASK)
    scores = numpy(layer.compute_scores(QUERY, memory["keys"]))
    received = numpy(layer(QUERY, VALUE, KEY, attention_mask=MASK, return_attention_scores=True))
    for b in range(2):
        expected = scores_of(layer, QUERY[b], KEY[b])
        assert_close(scores[b], expected)
        expected = oracles.attend(expected, VALUE[b], MASK[b])
        assert_close((received[0][b], received[1][b]), expected)


def test_cosine_does_not_see_lengths():
    layer = CosineAttention(initial_sharpness=3.0)
    expected = numpy(layer(QUERY, VALUE, KEY))
    assert numpy(layer.sharpness) == 3.0
    assert_close(numpy(layer(QUERY * 100.0, VALUE, KEY * 0.01)), expected)
    zeros = numpy(layer(QUERY * 0.0, VALUE, KEY, return_attention_scores=True)[1])
    assert_close(zeros, np.full((2, 3, 7), 1 / 7))


@pytest.mark.parametrize("sharpness", [0.0, -1.0, float("nan")])
def test_a_sharpness_must_be_positive(sharpness):
    with pytest.raises(ValueError, match="initial_sharpness to be a positive finite number"):
        CosineAttention(sharpness)


def test_a_linear_score_weighs_the_same_for_every_query():
    layer = LinearScoreAttention()
    _, weights = numpy(layer(QUERY, VALUE, KEY, return_attention_scores=True))
    assert_close(weights[:, 1:], weights[:, :-1])


def test_location_gives_no_weight_beyond_its_length():
    layer = LocationAttention(5)
    _, weights = numpy(layer(QUERY, VALUE, return_attention_scores=True))
    assert (weights[:, :, :5] > 0).all() and (weights[:, :, 5:] == 0).all()
    assert_close(weights.sum(axis=-1), np.ones((2, 3)))
    _, alone = numpy(layer(QUERY, VALUE[:, :5], return_attention_scores=True))
    assert_close(weights[:, :, :5], alone)


@pytest.mark.parametrize("max_length", [0, 2.5, None])
def test_location_needs_a_length(max_length):
    with pytest.raises(ValueError, match="max_length to be a positive integer. Received: max_"):
        LocationAttention(max_length)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_the_cosine_of_zeros_is_zero(policy):
    query, value = np.zeros((1, 2, 4), "float32"), np.ones((1, 3, 4), "float32")
    value[0, 1] = 0
    layer = CosineAttention(dtype=policy)
    for given in (query, query + 1):
        _, weights = layer(given, value, return_attention_scores=True)
        assert np.isfinite(numpy(keras.ops.cast(weights, "float32"))).all()
    context = numpy(keras.ops.cast(layer(query, value), "float32"))
    np.testing.assert_allclose(context, np.full((1, 2, 4), 2 / 3), rtol=1e-2)
