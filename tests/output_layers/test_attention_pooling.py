"""Attention pooling against the equations of Yang et al. (2016), computed by NumPy."""

import keras
import numpy as np
import pytest

from keras_attn import AttentionPooling, record_attention_scores
from keras_attn.testing import check_layer
from tests.contracts import assert_close, numpy

X = np.random.default_rng(1).normal(size=(3, 4, 5)).astype("float32")
MASK = np.arange(4) < np.array([[4], [2], [0]])


def expected(layer, x, mask):
    """Equations 5 to 7, one sequence after the other, over the unmasked positions only."""
    kernel, vector, bias = (
        numpy(each) for each in (layer.kernel, layer.context_vector, layer.bias)
    )
    pooled, weights = np.zeros((len(x), x.shape[2])), np.zeros(x.shape[:2])
    for row, real in enumerate(mask):
        if real.any():
            scores = np.tanh(x[row, real] @ kernel + bias) @ vector[:, 0]
            weights[row, real] = np.exp(scores) / np.exp(scores).sum()
            pooled[row] = weights[row] @ x[row]
    return pooled, weights


def built(**arguments):
    layer = AttentionPooling(6, **arguments)
    layer.build((None, None, 5))
    layer.bias.assign(np.linspace(-1, 1, 6))
    return layer


def test_attention_pooling_is_a_good_layer():
    check_layer(lambda: AttentionPooling(6), {"inputs": X, "mask": MASK}, {"inputs": "mask"})


@pytest.mark.parametrize("mask", [None, MASK])
def test_attention_pooling_equals_the_published_equations(mask):
    layer = built()
    received = layer(X, mask=mask, return_attention_scores=True)
    real = np.ones((3, 4), bool) if mask is None else mask
    for found, right in zip(received, expected(layer, X, real), strict=True):
        assert_close(numpy(found), right, 1e-6)


def test_attention_pooling_of_nothing_but_padding_is_zero():
    pooled, weights = built()(X, mask=MASK, return_attention_scores=True)
    assert (numpy(pooled)[2] == 0).all() and (numpy(weights)[2] == 0).all()
    assert (numpy(weights)[1, 2:] == 0).all()


def test_attention_pooling_joins_explicit_and_implicit_masks():
    ids, mask = np.array([[3, 4, 5, 0]]), np.array([[False, True, True, True]])
    vectors = keras.layers.Embedding(6, 5, mask_zero=True)(ids)
    layer = built()
    right, _ = expected(layer, numpy(vectors), np.array([[False, True, True, False]]))
    assert_close(numpy(layer(vectors, mask=mask)), right, 1e-6)


@pytest.mark.parametrize("length", [1, 7])
def test_attention_pooling_in_a_sequential_model_is_saved_with_its_weights(length, tmp_path):
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(9, 5, mask_zero=True),
            AttentionPooling(6, kernel_initializer="he_normal"),
            keras.layers.Dense(2),
        ]
    )
    ids = np.arange(2 * length).reshape(2, length) % 9
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(numpy(loaded(ids)), numpy(model(ids)))
    embedding, layer, dense = loaded.layers
    pooled, weights = expected(layer, numpy(embedding(ids)), ids != 0)
    assert_close(numpy(loaded(ids)), pooled @ numpy(dense.kernel) + numpy(dense.bias), 1e-5)
    with record_attention_scores() as records:
        loaded(ids)
    assert_close(numpy(records[layer.path])[:, 0], weights, 1e-6)


def test_attention_pooling_refuses_a_wrong_size_and_a_wrong_rank():
    with pytest.raises(ValueError, match="units=0"):
        AttentionPooling(0)
    with pytest.raises(ValueError, match="inputs of shape"):
        AttentionPooling(3)(X[0])
