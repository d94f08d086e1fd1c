import numpy as np
import pytest

from keras_attn import LuongAttention
from tests import oracles
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(1)
QUERY = GENERATOR.normal(size=(2, 3, 6)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 7, 4)).astype("float32")
KEYS = {
    "dot": GENERATOR.normal(size=(2, 7, 6)).astype("float32"),
    "general": GENERATOR.normal(size=(2, 7, 5)).astype("float32"),
    "concat": GENERATOR.normal(size=(2, 7, 5)).astype("float32"),
}
MASK = np.array([[True] * 4 + [False] * 3, [True] * 7])


def expected_scores(layer, query, key):
    if layer.score == "dot":
        return oracles.luong_dot_scores(query, key)
    if layer.score == "general":
        return oracles.luong_general_scores(query, key, numpy(layer.key_kernel))
    kernel = np.concatenate([numpy(layer.query_kernel), numpy(layer.key_kernel)])
    return oracles.luong_concat_scores(query, key, kernel, numpy(layer.vector)[:, 0])


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("score", KEYS)
def test_equals_the_equations(score, scale):
    key = KEYS[score]
    layer = LuongAttention(score, units=8 if score == "concat" else None, scale=scale)
    layer(QUERY, VALUE, key)
    assert not scale or numpy(layer.gain) == 1
    randomize(layer)
    context, weights = layer(QUERY, VALUE, key, attention_mask=MASK, return_attention_scores=True)
    gain = numpy(layer.gain) if scale else 1.0
    for b in range(2):
        scores = gain * expected_scores(layer, QUERY[b], key[b])
        expected = oracles.attend(scores, VALUE[b], MASK[b])
        assert_close((numpy(context)[b], numpy(weights)[b]), expected)


def test_an_unknown_score_is_refused():
    with pytest.raises(
        ValueError, match='"dot", "general" or "concat". Received: score=\'cosine\''
    ):
        LuongAttention("cosine")


@pytest.mark.parametrize("units", [None, 0, 2.5])
def test_concat_needs_units(units):
    with pytest.raises(ValueError, match='units to be a positive .*"concat". Received: units='):
        LuongAttention("concat", units=units)
