import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CoverageAttention,
    IntraDecoderAttention,
    LuongAttention,
)
from tests import oracles
from tests.contracts import assert_close, check_layer, numpy, randomize

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


def test_a_mechanism_with_a_state_is_refused():
    with pytest.raises(ValueError, match="mechanism must be an AttentionMechanism without a state"):
        IntraDecoderAttention(CoverageAttention(5))
