import math

import keras
import numpy as np
import pytest

from keras_attn import TiedMLMHead
from keras_attn.testing import check_layer
from tests.contracts import assert_close, numpy, randomize

INPUTS = np.random.default_rng(0).normal(size=(2, 3, 6)).astype("float32")


def make():
    return TiedMLMHead(keras.layers.ReversibleEmbedding(7, 4))


def test_is_a_good_layer():
    check_layer(make, {"inputs": INPUTS}, mixed_dtype="float32")


def test_equals_the_equation():
    layer = make()
    layer(INPUTS)
    randomize(layer)
    kernel, bias = numpy(layer.dense.kernel), numpy(layer.dense.bias)
    hidden = INPUTS.astype("float64") @ kernel + bias
    hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(
        hidden.var(-1, keepdims=True) + 1e-5
    )
    hidden = hidden * numpy(layer.norm.gamma) + numpy(layer.norm.beta)
    expected = hidden @ numpy(layer.embedding.embeddings).T + numpy(layer.bias)
    assert_close(numpy(layer(INPUTS)), expected)


def test_refuses_an_embedding_that_cannot_be_reversed():
    with pytest.raises(ValueError, match="Received: embedding=Embedding"):
        TiedMLMHead(keras.layers.Embedding(7, 4))


def test_activation_and_epsilon_are_arguments():
    embedding = keras.layers.ReversibleEmbedding(7, 4)
    layer = TiedMLMHead(embedding, activation="relu", epsilon=0.5)
    layer(INPUTS)
    randomize(layer)
    hidden = INPUTS @ numpy(layer.dense.kernel) + numpy(layer.dense.bias)
    hidden = np.maximum(hidden, 0)
    hidden = (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(
        hidden.var(-1, keepdims=True) + 0.5
    )
    hidden = hidden * numpy(layer.norm.gamma) + numpy(layer.norm.beta)
    expected = hidden @ numpy(embedding.embeddings).T + numpy(layer.bias)
    assert_close(numpy(layer(INPUTS)), expected)
    copy = TiedMLMHead.from_config(layer.get_config())
    assert copy.epsilon == 0.5 and copy.activation is layer.activation
