import keras
import numpy as np
import pytest

from keras_attn import AttentionRNNCell, BahdanauAttention, CoverageAttention, RNNDecoder
from keras_attn._attention.attention_losses import coverage_loss, doubly_stochastic_loss
from tests.contracts import assert_close, numpy

GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.dirichlet(np.ones(5), size=(2, 4)).astype("float32")
MASK = np.array([[True, True, True, False], [True, True, False, False]])
VALUE = GENERATOR.normal(size=(2, 5, 3)).astype("float32")
TOKEN_IDS = np.array([[1, 4, 5, 0], [1, 3, 0, 0]], "int32")

THREE_WEIGHTS = GENERATOR.dirichlet(np.ones(5), size=(3, 4)).astype("float32")
STEP_MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
SOURCE_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], bool)


def expected_coverage_loss(weights, mask):
    losses = []
    for alignment, is_real in zip(weights, mask, strict=True):
        before = np.zeros(alignment.shape[1])
        for row in alignment[is_real]:
            losses.append(np.minimum(row, before).sum())
            before = before + row
    return np.mean(losses)


def test_coverage_loss_equals_the_equation():
    assert_close(numpy(coverage_loss(WEIGHTS, MASK)), expected_coverage_loss(WEIGHTS, MASK))
    assert float(coverage_loss(WEIGHTS, np.zeros_like(MASK))) == 0.0


def test_coverage_loss_is_zero_if_each_step_attends_elsewhere():
    assert float(coverage_loss(np.eye(4, dtype="float32")[None], np.ones((1, 4), "bool"))) == 0.0


def make_decoder(weight):
    cell = AttentionRNNCell(keras.layers.GRUCell(4), CoverageAttention(5))
    embedding = keras.layers.Embedding(6, 3)
    return RNNDecoder(
        cell, embedding, head=keras.layers.Dense(6), bridge="zero", coverage_loss=weight
    )


def test_decoder_adds_the_coverage_loss_in_training():
    decoder = make_decoder(0.5)
    _, weights = numpy(decoder(TOKEN_IDS, VALUE, return_attention_scores=True))
    assert decoder.losses == []
    decoder(TOKEN_IDS, VALUE, training=True)
    assert_close(numpy(decoder.losses), [0.5 * expected_coverage_loss(weights, TOKEN_IDS != 0)])
    assert RNNDecoder.from_config(decoder.get_config()).coverage_loss == 0.5


def test_coverage_loss_with_another_padding_id():
    decoder = make_decoder(0.5)
    decoder(TOKEN_IDS, VALUE)
    other = RNNDecoder.from_config({**decoder.get_config(), "pad_token_id": 5})
    assert other.pad_token_id == RNNDecoder.from_config(other.get_config()).pad_token_id == 5
    ids = np.where(TOKEN_IDS == 0, 5, np.minimum(TOKEN_IDS, 4))
    _, weights = numpy(other(ids, VALUE, return_attention_scores=True))
    other(ids, VALUE, training=True)
    assert_close(numpy(other.losses), [0.5 * expected_coverage_loss(weights, TOKEN_IDS != 0)])


@pytest.mark.slow
def test_coverage_loss_spreads_the_attention():
    def overlap_after_training(weight):
        keras.utils.set_random_seed(0)
        decoder = make_decoder(weight)
        inputs = [keras.Input((None,), dtype="int32"), keras.Input((None, 3))]
        model = keras.Model(inputs, decoder(*inputs))
        model.compile(
            keras.optimizers.Adam(0.05),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        model.fit([TOKEN_IDS, VALUE], TOKEN_IDS, epochs=20, verbose=0)
        _, weights = decoder(TOKEN_IDS, VALUE, return_attention_scores=True)
        return float(coverage_loss(weights, TOKEN_IDS != 0))

    assert overlap_after_training(5.0) < 0.7 * overlap_after_training(0.0)


@pytest.mark.parametrize("weight", [-1.0, 1.0])
def test_weight_of_the_coverage_loss_is_checked(weight):
    cell = keras.layers.GRUCell(6)
    with pytest.raises(ValueError, match="coverage_loss to be (a finite number|0 if the cell)"):
        RNNDecoder(cell, keras.layers.ReversibleEmbedding(6, 6), coverage_loss=weight)


def expected_doubly_stochastic_loss(weights, mask, source_mask):
    losses = []
    for alignment, is_step, is_position in zip(weights, mask, source_mask, strict=True):
        if is_step.any():
            sums = alignment[is_step].sum(axis=0)[is_position]
            losses.append(np.sum((1 - sums) ** 2))
    return np.mean(losses)


def test_doubly_stochastic_loss_equals_the_equation():
    expected = expected_doubly_stochastic_loss(THREE_WEIGHTS, STEP_MASK, SOURCE_MASK)
    assert_close(numpy(doubly_stochastic_loss(THREE_WEIGHTS, STEP_MASK, SOURCE_MASK)), expected)
    everywhere = expected_doubly_stochastic_loss(
        THREE_WEIGHTS, STEP_MASK, np.ones_like(SOURCE_MASK)
    )
    assert_close(numpy(doubly_stochastic_loss(THREE_WEIGHTS, STEP_MASK)), everywhere)
    assert float(doubly_stochastic_loss(THREE_WEIGHTS, np.zeros_like(STEP_MASK))) == 0.0


def test_doubly_stochastic_loss_is_zero_if_each_position_is_attended_to_once():
    permutation = np.eye(4, dtype="float32")[None, [2, 0, 3, 1]]
    assert float(doubly_stochastic_loss(permutation, np.ones((1, 4), bool))) == 0.0


def test_decoder_adds_the_doubly_stochastic_loss_in_training():
    cell = AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(5))
    decoder = RNNDecoder(
        cell,
        keras.layers.Embedding(6, 3),
        head=keras.layers.Dense(6),
        bridge="zero",
        doubly_stochastic_loss=0.5,
    )
    source_mask = SOURCE_MASK[:2]
    _, weights = numpy(decoder(TOKEN_IDS, VALUE, source_mask, return_attention_scores=True))
    assert decoder.losses == []
    decoder(TOKEN_IDS, VALUE, source_mask, training=True)
    expected = 0.5 * expected_doubly_stochastic_loss(weights, TOKEN_IDS != 0, source_mask)
    assert_close(numpy(decoder.losses), [expected])
    assert RNNDecoder.from_config(decoder.get_config()).doubly_stochastic_loss == 0.5


@pytest.mark.parametrize("weight", [-1.0, 1.0])
def test_weight_of_the_doubly_stochastic_loss_is_checked(weight):
    cell, embedding = keras.layers.GRUCell(6), keras.layers.ReversibleEmbedding(6, 6)
    with pytest.raises(ValueError, match="to be (a finite number|0 if the cell)"):
        RNNDecoder(cell, embedding, doubly_stochastic_loss=weight)
