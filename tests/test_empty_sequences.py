"""Sequences without time steps are sequences too."""

import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import (
    AttentionRNN,
    AttentionRNNCell,
    BahdanauAttention,
    CombinedAttention,
    IntraDecoderAttention,
    LocalAttention,
    LocationSensitiveAttention,
    LuongAttention,
    MonotonicAttention,
    MultiHeadAttention,
    RNNEncoder,
)
from tests.contracts import assert_identical, numpy
from tests.public_layers import LAYERS, layer_and_inputs
from tests.slow_cases import all_slow_but

TIME = {
    **{"query": 1, "value": 1, "inputs": 1, "token_ids": 1, "first": 1, "second": 1},
    **{"encoder_outputs": 1, "encoder_mask": 1, "heads": 2},
    **{"query_positions": 1, "key_positions": 1},
}
"""Arguments with a time axis, and which that is."""
WITHOUT_TIME = {"AttentionRNNCell", "PatchEmbedding", "RNNCell"}


def emptied(inputs, names):
    return {
        name: np.take(value, [], axis=TIME[name]) if name in names else value
        for name, value in inputs.items()
    }


def combinations(inputs):
    """Which arguments are empty at once: a source and its mask belong together."""
    times = {name for name in inputs if name in TIME}
    source = times & {"encoder_outputs", "encoder_mask"}
    alone = [{name} for name in times - source]
    return [*alone, source, times] if source else [*alone, times]


@pytest.mark.parametrize("name", sorted(set(LAYERS) - WITHOUT_TIME))
def test_every_layer_takes_empty_sequences(name):
    layer, inputs = layer_and_inputs(name)
    expected = tree.flatten(layer(**inputs))
    for names in combinations(inputs):
        outputs = tree.flatten(layer(**emptied(inputs, names)))
        for one, other in zip(outputs, expected, strict=True):
            if one is None:
                continue
            one = numpy(one)
            assert one.ndim == len(other.shape)
            assert np.isfinite(one.astype("float32")).all()


MECHANISMS = {
    "sparsemax": lambda: LuongAttention(probability_fn="sparsemax"),
    "hardmax": lambda: LuongAttention(probability_fn="hardmax"),
    "dot": lambda: LuongAttention("dot"),
    "chunks": lambda: BahdanauAttention(4, chunk_size=2),
    "normalized": lambda: BahdanauAttention(4, normalize=True),
    "local-p": lambda: LocalAttention(LuongAttention(), window=2),
    "local-m": lambda: LocalAttention(LuongAttention(), window=2, alignment="monotonic"),
    "parallel": lambda: MonotonicAttention(LuongAttention()),
    "recursive": lambda: MonotonicAttention(LuongAttention(), mode="recursive"),
    "hard": lambda: MonotonicAttention(LuongAttention(), mode="hard"),
    "cumulative": lambda: LocationSensitiveAttention(4, kernel_size=3, cumulative=True),
    "heads": lambda: MultiHeadAttention(2, 4),
    "grouped": lambda: MultiHeadAttention(2, 4, num_key_value_heads=1),
    "blockwise": lambda: MultiHeadAttention(2, 4, flash_attention=True),
    "multiple": lambda: CombinedAttention(
        {"a": LuongAttention(), "b": IntraDecoderAttention(LuongAttention())}
    ),
}
X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
EMPTY = X[:, :0]


@pytest.mark.parametrize("name", MECHANISMS)
def test_empty_source_gives_a_context_of_zeros(name):
    layer = MECHANISMS[name]()
    layer(X, X)
    context = numpy(layer(X, EMPTY))
    if name not in ("heads", "grouped", "blockwise", "multiple"):  # projected, or partly own past
        assert context.shape == X.shape and not context.any()
    assert numpy(layer(EMPTY, X)).shape == numpy(layer(EMPTY, EMPTY)).shape
    if name != "blockwise":
        _, weights = layer(X, EMPTY, return_attention_scores=True)
        assert weights.shape[-2:] == (3, 0)


@pytest.mark.parametrize("name", all_slow_but(*list(MECHANISMS)[::3], cases=MECHANISMS))
def test_empty_source_and_a_masked_one_are_alike_in_a_graph(name):
    """As a model computes them that knows no sizes in advance, in steps."""
    cell = AttentionRNNCell(keras.layers.GRUCell(8), MECHANISMS[name]())
    inputs, source = keras.Input((None, 8)), keras.Input((None, 8))
    mask = keras.Input((None,), dtype="bool")
    model = keras.Model([inputs, source, mask], AttentionRNN(cell)(inputs, source, mask))
    empty = model.predict([X, EMPTY, np.ones((2, 0), "bool")], verbose=0)
    masked = model.predict([X, X, np.zeros((2, 3), "bool")], verbose=0)
    np.testing.assert_allclose(empty, masked, rtol=1e-5, atol=1e-6)


def test_recurrent_encoder_of_an_empty_source_has_the_state_of_a_masked_one():
    encoder = RNNEncoder(keras.layers.LSTMCell(4), num_layers=2)
    masked = encoder(X, mask=np.zeros((2, 3), "bool"))
    empty = encoder(EMPTY)
    assert empty["encoder_outputs"].shape == (2, 0, 8) and empty["encoder_mask"].shape == (2, 0)
    assert_identical(numpy(empty["encoder_state"]), numpy(masked["encoder_state"]))
