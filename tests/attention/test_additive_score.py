import keras
import numpy as np
import pytest

from keras_attn import BahdanauAttention
from keras_attn._attention.additive_score import additive_score
from tests import oracles
from tests.contracts import assert_close, numpy

GENERATOR = np.random.default_rng(3)
QUERY = GENERATOR.normal(size=(2, 3, 5)).astype("float32")
VALUE = GENERATOR.normal(size=(2, 7, 4)).astype("float32")
TARGET = GENERATOR.normal(size=(2, 3, 4)).astype("float32")
MASK = np.array([[True] * 4 + [False] * 3, [True] * 7])


def after_a_step(chunk_size):
    """Outputs, and inputs' embeddings and weights after a step of training, of two layers."""
    keras.utils.set_random_seed(1)
    query, value = keras.Input((None, 5)), keras.Input((None, 4))
    mask = keras.Input((None,), dtype="bool")
    dense = [keras.layers.Dense(size, use_bias=False) for size in (5, 4)]
    attention = BahdanauAttention(6, normalize=True, chunk_size=chunk_size)
    context = attention(dense[0](query), dense[1](value), attention_mask=mask)
    model = keras.Model([query, value, mask], context)
    model.compile(keras.optimizers.SGD(1.0), "mse")
    before = numpy(model([QUERY, VALUE, MASK]))
    model.train_on_batch([QUERY, VALUE, MASK], TARGET)
    return [before, *model.get_weights()]


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 7, 100])
def test_chunks_change_neither_scores_nor_gradients(chunk_size):
    for received, expected in zip(after_a_step(chunk_size), after_a_step(None), strict=True):
        assert_close(received, expected)


@pytest.mark.parametrize("chunk_size", [None, 1, 3])
def test_equals_the_equations(chunk_size):
    layer = BahdanauAttention(6, chunk_size=chunk_size)
    context = numpy(layer(QUERY, VALUE, attention_mask=MASK))
    kernels = [numpy(layer.query_kernel), numpy(layer.key_kernel), numpy(layer.vector)[:, 0]]
    for b in range(2):
        scores = oracles.bahdanau_scores(QUERY[b], VALUE[b], *kernels)
        assert_close(context[b], oracles.attend(scores, VALUE[b], MASK[b])[0])


@pytest.mark.parametrize("chunk_size", [0, 1.5])
def test_a_chunk_holds_something(chunk_size):
    with pytest.raises(ValueError, match="chunk_size to be a positive integer. Received: chunk"):
        BahdanauAttention(6, chunk_size=chunk_size)


def test_no_keys_have_no_scores():
    query, vector = np.ones((2, 3, 4), "float32"), np.ones(4, "float32")
    keys = np.ones((2, 0, 4), "float32")
    assert additive_score(query, keys, vector, chunk_size=2).shape == (2, 3, 0)
