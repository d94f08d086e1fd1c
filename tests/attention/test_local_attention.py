import numpy as np
import pytest

from keras_attn import (
    BahdanauAttention,
    LocalAttention,
    LocationAttention,
    LuongAttention,
    MultiHeadAttention,
)
from keras_attn.testing import check_layer
from tests import oracles
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(1)
QUERY = GENERATOR.normal(size=(3, 4, 6)).astype("float32")
VALUE = GENERATOR.normal(size=(3, 9, 5)).astype("float32")
KEY = GENERATOR.normal(size=(3, 9, 6)).astype("float32")
MASK = np.array([[True] * 5 + [False] * 4, [True] * 9, [False] * 9])


def local_attend(layer, query, key, value, mask):
    """Luong et al. 2015, section 3.2, of one sentence, over all of it."""
    length = mask.nonzero()[0][-1] + 1 if mask.any() else 0
    kernel, vector = numpy(layer.position_kernel), numpy(layer.position_vector)[:, 0]
    centers = length * oracles.sigmoid(np.tanh(query @ kernel) @ vector)
    scores = oracles.luong_dot_scores(query, key)
    distance = np.arange(len(key)) - centers[:, None]
    allowed = mask & (abs(distance) <= layer.window)
    _, weights = oracles.attend(scores, value, allowed)
    weights = weights * np.exp(-(distance**2) / (2 * (layer.window / 2) ** 2))
    return weights @ value, weights


@pytest.mark.parametrize("window", [1, 2, 3, 20])
def test_equals_the_equations(window):
    layer = LocalAttention(LuongAttention("dot"), window=window, units=3)
    layer(QUERY, VALUE, KEY)
    randomize(layer, scale=1.0)
    received = numpy(layer(QUERY, VALUE, KEY, attention_mask=MASK, return_attention_scores=True))
    for b in range(3):
        expected = local_attend(layer, QUERY[b], KEY[b], VALUE[b], MASK[b])
        assert_close((received[0][b], received[1][b]), expected)
    assert window > 3 or (received[1][1] == 0).any()


@pytest.mark.parametrize("mechanism", ["dot", "bahdanau"])
def test_is_a_good_layer(mechanism):
    def make():
        scores = LuongAttention("dot") if mechanism == "dot" else BahdanauAttention(4)
        return LocalAttention(scores, window=2)

    inputs = {"query": QUERY, "value": VALUE, "key": KEY, "attention_mask": MASK}
    check_layer(make, inputs, masked={"value": "attention_mask", "key": "attention_mask"})


def test_padding_changes_nothing():
    layer = LocalAttention(LuongAttention("dot"), window=2)
    expected = numpy(layer(QUERY, VALUE, KEY, attention_mask=MASK))
    pad = ((0, 0), (0, 30), (0, 0))
    mask = np.pad(MASK, pad[:2])
    padded = layer(QUERY, np.pad(VALUE, pad), np.pad(KEY, pad), attention_mask=mask)
    assert_close(numpy(padded), expected)


def test_a_mask_for_all_sentences():
    layer = LocalAttention(LuongAttention("dot"), window=2)
    one, all_ = (
        numpy(layer(QUERY, VALUE, KEY, attention_mask=mask, return_attention_scores=True))
        for mask in (MASK[:1], np.repeat(MASK[:1], 3, axis=0))
    )
    assert_close(one, all_, 0)


def test_a_window_behind_the_last_position():
    layer = LocalAttention(LuongAttention("dot"), window=2, units=3)
    layer(QUERY, VALUE, KEY)
    layer.position_kernel.assign(100 * np.ones((6, 3)))
    layer.position_vector.assign(100 * np.ones((3, 1)))  # p = 9: of two places one is in the source
    _, weights = numpy(layer(abs(QUERY), VALUE, KEY, return_attention_scores=True))
    assert (weights[..., :7] == 0).all() and (weights[..., 7:] > 0).all()


@requires_tensorflow("ops.take of nothing has another shape on JAX")
@pytest.mark.parametrize("shape", [(0, 4, 9), (3, 0, 9)])
def test_nobody_asks(shape):
    batch, target, source = shape
    layer = LocalAttention(LuongAttention("dot"), window=2)
    layer(QUERY, VALUE, KEY)
    inputs = QUERY[:batch, :target], VALUE[:batch], KEY[:batch]
    context, weights = layer(*inputs, return_attention_scores=True)
    assert tuple(context.shape) == (batch, target, 5) and tuple(weights.shape) == shape


def test_weights_in_half_precision():
    layers = [
        LocalAttention(LuongAttention("general", dtype=dtype), window=2, dtype=dtype, name="same")
        for dtype in ("float32", "mixed_float16")
    ]
    results = []
    for layer in layers:
        layer(QUERY, VALUE, KEY)
        layer.set_weights(layers[0].get_weights())
        results.append(numpy(layer(QUERY, VALUE, KEY, MASK, return_attention_scores=True)[1]))
    assert_close(results[1], results[0], 1e-2)


def test_a_mask_for_each_query():
    layer = LocalAttention(LuongAttention("dot"), window=3)
    mask = GENERATOR.random((3, 4, 9)) < 0.6
    mask[:, 0, 8] = True  # the sentences have one length
    _, weights = numpy(layer(QUERY, VALUE, KEY, attention_mask=mask, return_attention_scores=True))
    assert (weights[~mask] == 0).all() and (weights > 0).any()
    memory = layer.prepare_memory(VALUE, KEY, mask)
    assert numpy(memory["lengths"]).tolist() == [9, 9, 9]


@pytest.mark.parametrize(
    "mechanism", [LocationAttention(5), MultiHeadAttention(2, 3), None, "luong"]
)
def test_what_has_no_score_of_a_position_is_refused(mechanism):
    with pytest.raises(ValueError, match="mechanism to be an AttentionMechanism.*Received: mech"):
        LocalAttention(mechanism)
