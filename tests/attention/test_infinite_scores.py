"""Scores and biases of plus and minus infinity, against NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import (
    MultiHeadAttention,
    ScaledDotProductAttention,
    TransformerEncoderBlock,
)
from keras_attn._attention.probability_functions import PROBABILITY_FUNCTIONS
from tests.backend import gradients_of
from tests.contracts import assert_close, numpy

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(8, 3, 5)).astype("float32")
CHOSEN = RNG.random(SCORES.shape)
SCORES[CHOSEN < 0.3] = -np.inf
SCORES[CHOSEN > 0.93] = np.inf
SCORES[0], SCORES[1, :, :4], SCORES[2, 0] = -np.inf, -np.inf, np.inf
MASK = RNG.random(SCORES.shape) < 0.6
MASK[3], MASK[1, :, 4] = False, False
X = RNG.normal(size=(2, 4, 6)).astype("float32")
BIAS = np.where(RNG.random((2, 2, 4, 4)) < 0.4, -np.inf, RNG.normal(size=(2, 2, 4, 4)))
BIAS[0, 0, 1], BIAS[1, :, 2], BIAS[1, 1, 3, 2] = -np.inf, -np.inf, np.inf
BIAS = BIAS.astype("float32")


def softmax(scores, mask=True):
    """Limit of the softmax for infinite scores; zeros where nothing may be attended to."""
    scores = np.where(mask, np.asarray(scores, "float64"), -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(scores - largest)
    exponentials = np.where(scores == largest, 1.0, exponentials)
    exponentials = np.where(scores == -np.inf, 0.0, exponentials)
    sums = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(sums == 0, 1, sums)


@pytest.mark.parametrize("mask", [MASK, np.ones_like(MASK)], ids=["mask", "no mask"])
def test_infinite_scores_softmax_equals_numpy(mask):
    weights = PROBABILITY_FUNCTIONS["softmax"](ops.convert_to_tensor(SCORES), mask)
    assert_close(weights, softmax(SCORES, mask))


@pytest.mark.parametrize("name", PROBABILITY_FUNCTIONS)
def test_infinite_scores_select_and_exclude_positions(name):
    weights = numpy(PROBABILITY_FUNCTIONS[name](ops.convert_to_tensor(SCORES), MASK))
    allowed = MASK & (SCORES > -np.inf)
    largest = np.where(allowed, SCORES, -np.inf).max(axis=-1, keepdims=True)
    is_largest = allowed & (np.isfinite(largest) | (largest == SCORES))
    assert (weights[~is_largest] == 0).all()
    assert_close(weights.sum(axis=-1), allowed.any(axis=-1).astype("float32"))


@pytest.mark.parametrize("name", ["softmax", "sparsemax"])
def test_infinite_scores_have_finite_gradients(name):
    def loss(scores):
        weights = PROBABILITY_FUNCTIONS[name](scores, ops.convert_to_tensor(MASK))
        return ops.sum(weights * ops.arange(5.0))

    _, (gradient,) = gradients_of(loss, SCORES)
    assert np.isfinite(numpy(gradient)).all() and numpy(gradient).any()


def test_nan_scores_remain_nan():
    scores = np.array([[[np.nan, 1.0]]], "float32")
    assert np.isnan(numpy(PROBABILITY_FUNCTIONS["softmax"](scores, np.ones((1, 1, 2), bool)))).any()


@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(2, 2, 4, 4), (1, 2, 4, 4), (4, 4)], ids=str)
def test_infinite_position_bias_equals_numpy(shape, dtype, use_causal_mask):
    attention = MultiHeadAttention(2, 3)
    bias = BIAS[: shape[0]] if len(shape) == 4 else BIAS[0, 0]
    bias = bias.astype(dtype)
    allowed = np.tri(4, dtype=bool) if use_causal_mask else True
    options = {"return_attention_scores": True, "use_causal_mask": use_causal_mask}
    _, plain = numpy(attention(X, return_attention_scores=True))
    outputs, weights = numpy(attention(X, position_bias=bias, **options))
    assert_close(weights, softmax(np.log(plain) + bias, allowed), 1e-4)
    assert np.isfinite(outputs).all()
    _, (gradient,) = gradients_of(lambda x: ops.sum(attention(x, position_bias=bias) ** 2), X)
    assert np.isfinite(numpy(gradient)).all()


class Window(keras.layers.Layer):
    """Bias that excludes all keys but the one three positions before the query."""

    def call(self, query_positions, key_positions):
        distance = query_positions[:, :, None] - key_positions[:, None]
        bias = ops.where(ops.equal(distance, 3), 0.0, -np.inf)  # (1, T, S)
        return ops.broadcast_to(bias[:, None], (1, 2, *ops.shape(bias)[1:]))


@pytest.mark.parametrize("flash_attention", [False, True])
def test_infinite_position_bias_of_a_layer(flash_attention):
    attention = MultiHeadAttention(2, 3, flash_attention=flash_attention)
    attention.build(X.shape)
    masked = MultiHeadAttention(2, 3)
    masked.build(X.shape)
    masked.set_weights(attention.get_weights())
    mask = np.eye(4, k=-3, dtype=bool)[None]
    assert_close(attention(X, position_bias=Window()), masked(X, attention_mask=mask))
    _, (gradient,) = gradients_of(lambda x: ops.sum(attention(x, position_bias=Window()) ** 2), X)
    _, (of_mask,) = gradients_of(lambda x: ops.sum(masked(x, attention_mask=mask) ** 2), X)
    assert_close(gradient, of_mask)


def test_infinite_position_bias_of_a_block():
    block = TransformerEncoderBlock(2, 8)
    outputs = numpy(block(X, position_bias=BIAS))
    finite = numpy(block(X, position_bias=np.clip(BIAS, -1e9, 1e6)))
    has_keys = (BIAS > -np.inf).any(axis=-1).all(axis=1)  # (B, T)
    assert np.isfinite(outputs).all()
    assert_close(outputs[has_keys], finite[has_keys])


class Doubtful(ScaledDotProductAttention):
    """Mechanism of a user that excludes keys with a negative first feature."""

    def compute_scores(self, query, keys):
        allowed = keys[:, None, :, 0] > 0
        return ops.where(allowed, super().compute_scores(query, keys), -np.inf)


@pytest.mark.parametrize("name", PROBABILITY_FUNCTIONS)
def test_infinite_scores_of_a_mechanism_are_a_mask(name):
    keys = X.copy()
    keys[0, :, 0], keys[1, :, 0] = -1.0, [1.0, -1.0, 1.0, -1.0]
    mask = keys[:, :, 0] > 0
    expected = ScaledDotProductAttention(probability_fn=name)(X, keys, attention_mask=mask)
    assert_close(Doubtful(probability_fn=name)(X, keys), expected)
