"""What all mechanisms share, on each of them."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import (
    AttentionMechanism,
    BahdanauAttention,
    CosineAttention,
    LinearScoreAttention,
    LocationAttention,
    LuongAttention,
    ScaledDotProductAttention,
)
from keras_attn.testing import check_layer
from tests.contracts import assert_close, assert_identical, numpy, randomize

GENERATOR = np.random.default_rng(0)
QUERY = GENERATOR.normal(size=(2, 3, 4)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 5, 4)).astype("float32")
KEY = GENERATOR.normal(size=(2, 5, 4)).astype("float32")
MASK = np.array([[True, True, True, False, False], [True, False, True, True, False]])

MECHANISMS = {
    "bahdanau": lambda: BahdanauAttention(6),
    "bahdanau normalized": lambda: BahdanauAttention(6, normalize=True),
    "bahdanau in chunks": lambda: BahdanauAttention(6, normalize=True, chunk_size=2),
    "dot": lambda: LuongAttention("dot"),
    "dot scaled": lambda: LuongAttention("dot", scale=True),
    "general": lambda: LuongAttention("general"),
    "concat": lambda: LuongAttention("concat", units=6),
    "scaled dot product": lambda: ScaledDotProductAttention(),
    "cosine": lambda: CosineAttention(),
    "linear": lambda: LinearScoreAttention(),
    "location": lambda: LocationAttention(9),
}
# The softmax takes away what the query adds to all scores of its row.
WITHOUT_GRADIENT = {"linear": ("query_kernel", "bias")}


@pytest.fixture(params=MECHANISMS)
def make_mechanism(request):
    return MECHANISMS[request.param]


def built(layer):
    layer(QUERY, VALUE, KEY)
    return randomize(layer)


@pytest.mark.parametrize("name", MECHANISMS)
def test_is_a_good_layer(name):
    inputs = {"query": QUERY, "value": VALUE, "key": KEY, "attention_mask": MASK}
    check_layer(
        MECHANISMS[name],
        inputs,
        masked={"value": "attention_mask", "key": "attention_mask"},
        without_gradient=WITHOUT_GRADIENT.get(name, ()),
    )


def test_memory_prepared_once_gives_the_result_of_a_call(make_mechanism):
    layer = built(make_mechanism())
    memory = layer.prepare_memory(VALUE, KEY, MASK)
    called = layer(QUERY, VALUE, KEY, attention_mask=MASK, return_attention_scores=True)
    assert_close(numpy(layer.attend(QUERY, memory)), numpy(called), 1e-6)
    one_by_one = [numpy(layer.attend(QUERY[:, t : t + 1], memory)[0]) for t in range(3)]
    assert_close(np.concatenate(one_by_one, axis=1), numpy(called[0]))


def test_without_a_key_the_value_is_the_key(make_mechanism):
    layer = built(make_mechanism())
    assert_identical(numpy(layer(QUERY, VALUE)), numpy(layer(QUERY, VALUE, VALUE)))


def test_a_mask_for_each_query(make_mechanism):
    layer = built(make_mechanism())
    mask = GENERATOR.random((2, 3, 5)) < 0.5
    mask[0, 1] = False
    context, weights = numpy(
        layer(QUERY, VALUE, KEY, attention_mask=mask, return_attention_scores=True)
    )
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()
    for t in range(3):
        one = numpy(layer(QUERY[:, t : t + 1], VALUE, KEY, attention_mask=mask[:, t]))
        assert_close(context[:, t : t + 1], one)


def test_a_query_that_may_attend_to_nothing_gets_zeros(make_mechanism):
    layer = built(make_mechanism())
    mask = np.array([[False] * 5, [True] * 5])
    context, weights = numpy(
        layer(QUERY, VALUE, KEY, attention_mask=mask, return_attention_scores=True)
    )
    assert (weights[0] == 0).all() and (context[0] == 0).all()
    assert_close(weights[1].sum(axis=-1), np.ones(3))


def test_the_implicit_mask_of_the_value_counts(make_mechanism):
    layer = built(make_mechanism())
    value = np.where(MASK[:, :, None], VALUE, 0.0)
    inputs = keras.Input((None, 4)), keras.Input((None, 4))
    implicit = keras.Model(inputs, layer(inputs[0], keras.layers.Masking()(inputs[1])))
    explicit = numpy(layer(QUERY, value, attention_mask=MASK))
    assert_close(numpy(implicit([QUERY, value])), explicit)


def test_the_implicit_mask_and_the_argument_both_count():
    layer = built(BahdanauAttention(6))
    value = keras.layers.Masking()(np.where(MASK[:, :, None], VALUE, 0.0))
    extra = np.array([[False, True, True, True, True]] * 2)
    _, weights = layer(QUERY, value, attention_mask=extra, return_attention_scores=True)
    allowed = np.broadcast_to((MASK & extra)[:, None], (2, 3, 5))
    assert ((numpy(weights) > 0) == allowed).all()


@pytest.mark.parametrize("name", ["query", "value", "key"])
def test_inputs_of_another_rank_are_refused(make_mechanism, name):
    inputs = {"query": QUERY, "value": VALUE, "key": KEY}
    inputs[name] = inputs[name][:, 0]
    with pytest.raises(ValueError, match=rf"{name} of shape .* Received: {name} with"):
        make_mechanism()(**inputs)


def test_a_mask_of_another_rank_is_refused(make_mechanism):
    with pytest.raises(ValueError, match="attention_mask of shape"):
        make_mechanism()(QUERY, VALUE, attention_mask=np.ones((5,), "bool"))


def test_integer_inputs_are_taken_as_numbers(make_mechanism):
    layer = built(make_mechanism())
    query, value = np.ones((2, 3, 4), "int32"), np.arange(40).reshape(2, 5, 4) % 3
    expected = numpy(layer(query.astype("float32"), value.astype("float32")))
    assert_close(numpy(layer(query, value)), expected)


def test_a_mechanism_must_say_how_it_scores():
    class Unfinished(AttentionMechanism):
        pass

    with pytest.raises(NotImplementedError, match="Unfinished must override `compute_scores`"):
        Unfinished()(QUERY, VALUE)


@pytest.mark.parametrize(
    "score",
    [
        lambda query, keys: ops.sum(keys, axis=-1),  # (batch, source)
        lambda query, keys: ops.sum(query[:, :, None] * keys[:, None], axis=-1, keepdims=True),
        lambda query, keys: ops.matmul(keys, ops.transpose(query, (0, 2, 1))),
        lambda query, keys: ops.sum(query, axis=-1, keepdims=True),  # (batch, target, 1)
    ],
    ids=["no target", "four axes", "transposed", "no source"],
)
def test_scores_of_a_wrong_shape_are_refused(score):
    class Wrong(AttentionMechanism):
        def compute_scores(self, query, keys):
            return score(query, keys)

    message = r"Expected Wrong.compute_scores .* = \(2, 3, 5\). Received: scores of shape"
    with pytest.raises(ValueError, match=message):
        Wrong()(QUERY, VALUE)


@pytest.mark.parametrize(
    "make_dot",
    [CosineAttention, ScaledDotProductAttention, lambda: LuongAttention("dot")],
)
def test_a_dot_product_needs_one_size(make_dot):
    message = "queries and keys of the same size. Received: query_dim=4, key_dim=3"
    with pytest.raises(ValueError, match=message):
        make_dot()(QUERY, VALUE, KEY[:, :, :3])
