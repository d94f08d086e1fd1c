import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import BahdanauAttention, LuongAttention
from keras_attn._attention.probability_functions import PROBABILITY_FUNCTIONS
from keras_attn.testing import check_layer
from tests import oracles
from tests.contracts import assert_close, assert_identical, numpy

GENERATOR = np.random.default_rng(2)
ORACLES = {name: getattr(oracles, name) for name in PROBABILITY_FUNCTIONS}
MASK = np.array([[[True] * 6 + [False] * 3], [[True, False, True] * 3], [[False] * 9]])


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0, 1e12])
@pytest.mark.parametrize("name", ORACLES)
def test_equals_the_definition(name, scale):
    scores = (scale * GENERATOR.normal(size=(3, 4, 9))).astype("float32")
    weights = numpy(PROBABILITY_FUNCTIONS[name](scores, MASK))
    for b in range(3):
        _, expected = oracles.attend(scores[b], np.eye(9), MASK[b], ORACLES[name])
        assert_close(weights[b], expected)
        assert (weights[b][:, ~MASK[b, 0]] == 0).all()


@pytest.mark.parametrize("padding", [1e4, 1e12])
@pytest.mark.parametrize("name", ORACLES)
def test_padding_changes_nothing(name, padding):
    scores = GENERATOR.normal(size=(3, 4, 9)).astype("float32")
    padded = np.concatenate([scores, np.full((3, 4, 5), padding, "float32")], axis=-1)
    mask = np.concatenate([MASK, np.zeros((3, 1, 5), bool)], axis=-1)
    weights = numpy(PROBABILITY_FUNCTIONS[name](padded, mask))
    assert_close(weights[..., :9], numpy(PROBABILITY_FUNCTIONS[name](scores, MASK)), 1e-6)
    assert (weights[..., 9:] == 0).all()


@pytest.mark.parametrize("name", ORACLES)
def test_half_precision_is_computed_in_full(name):
    scores = GENERATOR.normal(size=(3, 4, 9)).astype("float16")
    weights = PROBABILITY_FUNCTIONS[name](scores, MASK)
    assert keras.backend.standardize_dtype(weights.dtype) == "float16"
    expected = numpy(PROBABILITY_FUNCTIONS[name](scores.astype("float32"), MASK))
    assert_identical(numpy(weights), expected.astype("float16"))


def test_sparsemax_of_one_two_and_equal_scores():
    sparsemax = PROBABILITY_FUNCTIONS["sparsemax"]
    for scores, expected in [
        ([5.0], [1.0]),
        ([0.3, 0.1], [0.6, 0.4]),  # the paper's equation 5: (t + 1) / 2 for |t| <= 1
        ([3.0, 1.0], [1.0, 0.0]),
        ([2.0, 2.0, 2.0, -9.0], [1 / 3, 1 / 3, 1 / 3, 0.0]),
    ]:
        scores = np.array([[scores]], "float32")
        assert_close(
            numpy(sparsemax(scores, np.ones(scores.shape, bool)))[0, 0], np.array(expected)
        )


def test_hardmax_takes_the_first_of_several_best():
    scores = np.array([[[1.0, 7.0, 7.0, 7.0]]], "float32")
    for mask, expected in [([True] * 4, 1), ([True, False, True, True], 2)]:
        weights = numpy(PROBABILITY_FUNCTIONS["hardmax"](scores, np.array([[mask]])))
        assert_identical(weights[0, 0], np.eye(4, dtype="float32")[expected])


def test_sparsemax_has_the_gradient_of_its_paper():
    """Equation 14: of a loss with gradient g, g minus its mean over the support, on the support."""
    scores = GENERATOR.normal(size=(1, 4, 9)).astype("float32")
    upstream = GENERATOR.normal(size=(1, 4, 9)).astype("float32")
    layer = keras.layers.Dense(9, use_bias=False)
    layer.build((1, 4, 9))
    layer.set_weights([np.eye(9, dtype="float32")])
    x = keras.Input((4, 9))
    sparsemax = PROBABILITY_FUNCTIONS["sparsemax"]
    weights = keras.layers.Lambda(lambda scores: sparsemax(scores, np.ones((1, 1, 9), bool)))
    model = keras.Model(x, weights(layer(x)))
    model.compile(keras.optimizers.SGD(1.0), loss=lambda y_true, y_pred: ops.sum(y_true * y_pred))
    support = numpy(model(scores)) > 0
    model.train_on_batch(scores, upstream)
    count = support.sum(axis=-1, keepdims=True)
    mean = (upstream * support).sum(axis=-1, keepdims=True) / count
    expected = np.einsum("btd,bts->ds", scores, support * (upstream - mean))
    assert_close(np.eye(9) - numpy(layer.kernel), expected)


def test_sparse_attention_is_a_good_layer():
    query, value = (GENERATOR.normal(size=(2, length, 4)).astype("float32") for length in (3, 5))
    check_layer(
        lambda: BahdanauAttention(6, probability_fn="sparsemax"),
        {"query": query, "value": value, "attention_mask": MASK[:2, 0, :5]},
        masked={"value": "attention_mask"},
    )


def test_a_trained_layer_becomes_hard():
    layer = LuongAttention("dot")
    query, value = (GENERATOR.normal(size=(2, length, 4)).astype("float32") for length in (3, 5))
    _, soft = numpy(layer(query, value, return_attention_scores=True))
    layer.probability_fn = "hardmax"
    context, hard = numpy(layer(query, value, return_attention_scores=True))
    assert_identical(hard, np.eye(5, dtype="float32")[soft.argmax(axis=-1)])
    assert_close(context, np.take_along_axis(value, soft.argmax(axis=-1)[..., None], axis=1))
    assert layer.get_config()["probability_fn"] == "hardmax"


def test_an_unknown_function_is_refused():
    with pytest.raises(ValueError, match="'hardmax'.*Received: probability_fn='entmax'"):
        BahdanauAttention(4, probability_fn="entmax")


@pytest.mark.parametrize("name", PROBABILITY_FUNCTIONS)
def test_no_sentences(name):
    scores, mask = np.zeros((0, 2, 3), "float32"), np.ones((0, 2, 3), bool)
    assert tuple(PROBABILITY_FUNCTIONS[name](scores, mask).shape) == (0, 2, 3)
