import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CoverageAttention,
    IntraDecoderAttention,
    LocalAttention,
    LocationAttention,
    LuongAttention,
)
from keras_attn.testing import check_layer
from tests import oracles
from tests.contracts import assert_close, numpy, randomize

GENERATOR = np.random.default_rng(0)
QUERY = GENERATOR.normal(size=(2, 5, 4)).astype("float32")
MASK = np.array([[True] * 5, [True, True, False, True, False]])


def expected(query, mask, kernel):
    scores = oracles.luong_general_scores(query, query, kernel)
    allowed = np.tril(np.ones((5, 5), "bool"), -1) & mask
    return oracles.attend(scores, query, allowed)


def test_equals_the_equations():
    layer = IntraDecoderAttention(LuongAttention("general"))
    layer(QUERY)
    randomize(layer)
    received = numpy(layer(QUERY, attention_mask=MASK, return_attention_scores=True))
    for b in range(2):
        wanted = expected(QUERY[b], MASK[b], numpy(layer.mechanism.key_kernel))
        assert_close((received[0][b], received[1][b]), wanted)
    assert (received[0][:, 0] == 0).all()


def test_the_implicit_mask_of_the_query_counts():
    layer = IntraDecoderAttention(LuongAttention("dot"))
    masked = keras.layers.Masking()(QUERY * MASK[:, :, None])
    expected = layer(numpy(masked), attention_mask=MASK)
    assert_close(numpy(layer(masked)), numpy(expected))
    assert not np.allclose(numpy(layer(numpy(masked))), numpy(expected))


@pytest.mark.parametrize("make_mechanism", [LuongAttention, lambda: BahdanauAttention(6)])
def test_is_a_good_layer(make_mechanism):
    check_layer(lambda: IntraDecoderAttention(make_mechanism()), {"query": QUERY})


def test_steps_of_a_decoder_equal_a_call():
    attention = IntraDecoderAttention(BahdanauAttention(6))
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(3), attention, input_feeding=False))
    value = np.zeros((2, 1, 1), "float32")
    outputs, weights = numpy(layer(QUERY, value, return_attention_scores=True))
    states, contexts = outputs[..., :3], outputs[..., 3:]
    assert_close((contexts, weights), numpy(attention(states, return_attention_scores=True)))


def test_the_number_of_steps_must_be_known():
    layer = IntraDecoderAttention(LuongAttention("dot"))
    layer(QUERY)
    with pytest.raises(ValueError, match="Received: max_steps=None"):
        layer.initial_state(layer.prepare_memory(QUERY), 2)


@pytest.mark.parametrize(
    "make_mechanism",
    [
        lambda: CoverageAttention(5),
        lambda: LocationAttention(3),
        lambda: LocalAttention(LuongAttention("dot"), window=1),
    ],
)
def test_a_mechanism_that_does_not_score_a_query_and_a_key_is_refused(make_mechanism):
    with pytest.raises(ValueError, match="scores pairs of a query and a key"):
        IntraDecoderAttention(make_mechanism())


def test_masked_steps_are_not_among_the_steps_before():
    attention = IntraDecoderAttention(LuongAttention("general"))
    layer = AttentionRNN(AttentionRNNCell(keras.layers.GRUCell(3), attention), return_state=True)
    value = np.zeros((2, 1, 1), "float32")
    outputs, state = numpy(layer(QUERY, value, mask=MASK))
    short, short_state = numpy(layer(QUERY[1:, MASK[1]], value[1:]))
    assert_close(outputs[1:, MASK[1]], short)
    assert_close(state[0][1:], short_state[0])
