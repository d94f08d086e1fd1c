"""A layer inside of several others is one layer again after loading."""

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CombinedAttention,
    IntraDecoderAttention,
    IntraSentenceAttention,
    LocalAttention,
    LuongAttention,
    MonotonicAttention,
    RNNDecoder,
    SoftAlignment,
)
from tests.contracts import assert_close, numpy

FIRST = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
SECOND = np.random.default_rng(1).normal(size=(2, 5, 4)).astype("float32")


def share_a_transform(first, second):
    transform = keras.layers.Dense(6)
    return SoftAlignment(transform)(*IntraSentenceAttention(transform)(first, second))


def share_a_cell(first, second):
    cell = keras.layers.LSTMCell(4)
    return [AttentionRNN(cell)(first), AttentionRNN(cell)(second)]


def share_a_cell_with_attention(first, second):
    cell = AttentionRNNCell(keras.layers.GRUCell(4), LuongAttention("general"), attention_units=4)
    embedding = keras.layers.ReversibleEmbedding(7, 4)
    ids = keras.ops.cast(first[:, :, 0] > 0, "int32")
    return [AttentionRNN(cell)(first, second), RNNDecoder(cell, embedding)(ids, second)]


def in_a_cell(mechanism):
    return AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(4), mechanism))


def before_others(mechanism):
    return CombinedAttention({"shared": mechanism, "own": LuongAttention("general")})


MODELS = {
    "transform": share_a_transform,
    "cell": share_a_cell,
    "cell with attention": share_a_cell_with_attention,
    "attention of two cells": lambda first, second: share_twice(in_a_cell, first, second),
    "local": lambda first, second: share_twice(LocalAttention, first, second),
    "monotonic": lambda first, second: share_twice(MonotonicAttention, first, second),
    "intra-decoder": lambda first, second: share_twice(IntraDecoderAttention, first, first),
    "multiple": lambda first, second: share_twice(before_others, first, second),
}


def share_twice(wrap, first, second):
    mechanism = BahdanauAttention(3)
    return [wrap(mechanism)(first, second), wrap(mechanism)(first, second)]


@pytest.mark.parametrize("name", MODELS)
def test_comes_back_from_a_file(name, tmp_path):
    inputs = [keras.Input((None, 4)), keras.Input((None, 4))]
    model = keras.Model(inputs, MODELS[name](*inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
    assert_close(numpy(loaded([FIRST, SECOND])), numpy(model([FIRST, SECOND])), 1e-6)
