"""Layers that keep or pool one sequence work on sequences of sequences."""

import keras
import numpy as np
import pytest

from keras_attn import (
    IntraDecoderAttention,
    LearnedPositions,
    LuongAttention,
    SequencePooling,
    SinusoidalPositions,
    TiedLogits,
    TransformerEncoderBlock,
)
from tests.contracts import assert_close, numpy

DOCUMENTS = np.random.default_rng(0).normal(size=(2, 3, 5, 4)).astype("float32")
LAYERS = {
    "pooling": SequencePooling,
    "learned": lambda: LearnedPositions(6),
    "sinusoidal": SinusoidalPositions,
    "intra-decoder": lambda: IntraDecoderAttention(LuongAttention("dot")),
    "logits": lambda: TiedLogits(keras.layers.ReversibleEmbedding(7, 4)),
    "block": lambda: TransformerEncoderBlock(2, 8),
}


@pytest.mark.parametrize("name", LAYERS)
def test_equals_a_call_with_each_sequence(name):
    layer = LAYERS[name]()
    documents = keras.Input(DOCUMENTS.shape[1:])
    model = keras.Model(documents, keras.layers.TimeDistributed(layer)(documents))
    expected = np.stack([numpy(layer(document)) for document in DOCUMENTS])
    assert model.output_shape == (None, *expected.shape[1:])
    assert_close(numpy(model(DOCUMENTS)), expected, 1e-5)
