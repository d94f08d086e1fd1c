import keras
import numpy as np
import pytest

from keras_attn import AttentionRNNCell, BahdanauAttention, RNNDecoder
from keras_attn.attention.doubly_stochastic_loss import doubly_stochastic_loss
from tests.contracts import assert_close, numpy

GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.dirichlet(np.ones(5), size=(3, 4)).astype("float32")
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
SOURCE_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], bool)
VALUE = GENERATOR.normal(size=(2, 5, 3)).astype("float32")
TOKEN_IDS = np.array([[1, 4, 5, 0], [1, 3, 0, 0]], "int32")


def expected_loss(weights, mask, source_mask):
    losses = []
    for alignment, is_step, is_position in zip(weights, mask, source_mask, strict=True):
        if is_step.any():
            sums = alignment[is_step].sum(axis=0)[is_position]
            losses.append(np.sum((1 - sums) ** 2))
    return np.mean(losses)


def test_doubly_stochastic_loss_equals_the_equation():
    expected = expected_loss(WEIGHTS, MASK, SOURCE_MASK)
    assert_close(numpy(doubly_stochastic_loss(WEIGHTS, MASK, SOURCE_MASK)), expected)
    everywhere = expected_loss(WEIGHTS, MASK, np.ones_like(SOURCE_MASK))
    assert_close(numpy(doubly_stochastic_loss(WEIGHTS, MASK)), everywhere)
    assert float(doubly_stochastic_loss(WEIGHTS, np.zeros_like(MASK))) == 0.0


def test_doubly_stochastic_loss_is_zero_if_each_position_is_attended_to_once():
    permutation = np.eye(4, dtype="float32")[None, [2, 0, 3, 1]]
    assert float(doubly_stochastic_loss(permutation, np.ones((1, 4), bool))) == 0.0


def test_decoder_adds_the_doubly_stochastic_loss_in_training():
    cell = AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(5))
    decoder = RNNDecoder(
        cell,
        keras.layers.Embedding(6, 3),
        keras.layers.Dense(6),
        bridge="zero",
        doubly_stochastic_loss=0.5,
    )
    source_mask = SOURCE_MASK[:2]
    _, weights = numpy(decoder(TOKEN_IDS, VALUE, source_mask, return_attention_scores=True))
    assert decoder.losses == []
    decoder(TOKEN_IDS, VALUE, source_mask, training=True)
    expected = 0.5 * expected_loss(weights, TOKEN_IDS != 0, source_mask)
    assert_close(numpy(decoder.losses), [expected])
    assert RNNDecoder.from_config(decoder.get_config()).doubly_stochastic_loss == 0.5


@pytest.mark.parametrize("weight", [-1.0, 1.0])
def test_weight_of_the_doubly_stochastic_loss_is_checked(weight):
    cell, embedding = keras.layers.GRUCell(6), keras.layers.ReversibleEmbedding(6, 6)
    with pytest.raises(ValueError, match="to be (a finite number|0 if the cell)"):
        RNNDecoder(cell, embedding, doubly_stochastic_loss=weight)
