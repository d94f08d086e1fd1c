import doctest
import functools

import keras
import numpy as np
import pytest
from keras import ops, tree

from keras_attn import (
    CausalLanguageModel,
    GreedyDecoder,
    StepDecoder,
    TrainingModel,
    TransformerDecoder,
    TransformerDecoderBlock,
    rnn_seq2seq,
)
from keras_attn.testing import check_decoder
from keras_attn.training import compile_for_training
from tests.backend import precision
from tests.contracts import assert_close, numpy
from tests.slow_cases import all_slow_but, slow_on_jax
from tests.testing.small_decoder import SmallDecoder

ENCODED = {
    "encoder_outputs": np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32"),
    "encoder_mask": np.arange(4) < np.array([[4], [2]]),
}


def test_step_decoder_builds_all_parts_by_default():
    decoder = SmallDecoder()
    decoder.build((None, None), (None, None, 3), (None, None))
    assert decoder.built
    assert [weight.shape for weight in decoder.weights] == [(5, 4), (3, 4), (4,), (4, 5), (5,)]


def test_step_decoder_is_built_and_saved_as_a_part_of_a_search(tmp_path):
    inputs = {
        "encoder_outputs": keras.Input((None, 3), name="encoder_outputs"),
        "encoder_mask": keras.Input((None,), dtype="bool", name="encoder_mask"),
    }
    search = GreedyDecoder(SmallDecoder(), max_length=4)
    model = keras.Model(inputs, search(**inputs))
    assert len(model.weights) == 5
    expected = numpy(model(ENCODED))
    model.save(tmp_path / "model.keras")
    assert_close(numpy(keras.models.load_model(tmp_path / "model.keras")(ENCODED)), expected)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("prepare_memory", [None]),
        ("initial_state", [{}]),
        ("step", [None, {}, {}]),
        ("advance", [None, {}, {}]),
    ],
)
def test_step_decoder_requires_the_methods_of_the_contract(method, arguments):
    with pytest.raises(NotImplementedError, match=f"StepDecoder must override `{method}`"):
        getattr(StepDecoder(), method)(*arguments)


TOKEN_IDS = np.array([[1, 3, 4, 2], [1, 4, 4, 3]], "int32")


def make_rnn_decoder(attention):
    _, decoder = rnn_seq2seq(5, 5, embedding_dim=4, units=4, dropout=0.0, attention=attention)
    return decoder


def make_transformer_decoder(**arguments):
    # Without biases: a bias of keys has no gradient, so its update is a rounding error.
    block = TransformerDecoderBlock(2, 8, use_bias=False)
    embedding = keras.layers.ReversibleEmbedding(5, 4)
    return TransformerDecoder(block, embedding, num_layers=2, **arguments)


def make_language_model():
    block = TransformerDecoderBlock(2, 8, cross_attention=False)
    return CausalLanguageModel(block, keras.layers.ReversibleEmbedding(5, 4), num_layers=1)


ENCODER_STATE = [np.random.default_rng(1).normal(size=(2, 4)).astype("float32")] * 2
PROMPTS = {
    "encoder_outputs": np.array([[3, 4, 2], [4, 0, 0]], "int32"),
    "encoder_mask": np.array([[True, True, True], [True, False, False]]),
}


CASES = {
    "small": (SmallDecoder, ENCODED),
    "rnn": (lambda: make_rnn_decoder("luong"), {**ENCODED, "encoder_state": ENCODER_STATE}),
    "rnn without attention": (lambda: make_rnn_decoder(None), {"encoder_state": ENCODER_STATE}),
    "transformer": (make_transformer_decoder, ENCODED),
    "language model": (make_language_model, {}),
    "prompts": (make_language_model, PROMPTS),
}


@pytest.mark.parametrize("case", all_slow_but(*CASES, cases=CASES, on_jax=["small", "rnn"]))
def test_default_call_equals_other_implementations(case):
    make, encoded = CASES[case]
    decoder = make()
    expected = numpy(decoder(TOKEN_IDS, **encoded))
    token_ids, encoded = tree.map_structure(ops.convert_to_tensor, (TOKEN_IDS, encoded))
    assert_close(numpy(StepDecoder.call(decoder, token_ids, **encoded)), expected)
    first = StepDecoder.call(decoder, token_ids[:, :1], **encoded)
    assert_close(numpy(first), expected[:, :1])


def train(decoder, weights=None):
    """Trains a decoder without a fixed batch size or length. Returns the first and last weights."""
    source = keras.Input((None, 3), name="encoder_outputs")
    mask = keras.Input((None,), dtype="bool", name="encoder_mask")
    inputs = {"encoder_outputs": source, "encoder_mask": mask}
    model = TrainingModel(keras.Model(inputs, inputs), decoder)
    model.set_weights(weights or model.get_weights())
    before = model.get_weights()
    compile_for_training(model, learning_rate=0.1)
    model.fit({**ENCODED, "target_ids": TOKEN_IDS}, TOKEN_IDS[:, ::-1], epochs=2, verbose=0)
    return before, model.get_weights()


@pytest.mark.parametrize(
    "case", all_slow_but("small", "rnn", cases=["small", "rnn", "transformer"], on_jax=["rnn"])
)
def test_default_call_trains_like_other_implementations(case):
    make, _ = CASES[case]
    before, expected = train(make())
    decoder = make()
    parts = {"call": StepDecoder.call, "build": type(decoder).build}
    decoder.__class__ = type("Scanned", (type(decoder),), parts)
    assert_close(train(decoder, before)[1], expected)
    assert not np.allclose(before[0], expected[0])


class DecoderWithDropout(SmallDecoder):
    """Applies dropout in a step, with different random numbers for each position."""

    call = StepDecoder.call

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dropout = keras.layers.Dropout(0.5, seed=0)

    def step(self, token_ids, state, memory):
        logits, state = super().step(token_ids, state, memory)
        return self.dropout(logits), state


def test_default_call_passes_training_to_layers_of_a_step():
    decoder = DecoderWithDropout()
    expected = numpy(decoder(TOKEN_IDS, **ENCODED))
    assert np.all(expected)
    first, second = (numpy(decoder(TOKEN_IDS, **ENCODED, training=True)) for _ in range(2))
    for dropped in (first, second):
        assert_close(dropped, np.where(dropped == 0, 0, 2 * expected))
    zeros = [logits == 0 for logits in (first, first[:, ::-1], second)]
    assert not np.array_equal(zeros[0], zeros[1]) and not np.array_equal(zeros[0], zeros[2])
    before, after = train(DecoderWithDropout())
    assert not np.allclose(before[0], after[0])


class DecoderWithCellDropout(SmallDecoder):
    call = StepDecoder.call

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.cell = keras.layers.SimpleRNNCell(4, dropout=0.5, recurrent_dropout=0.5, seed=0)

    def step(self, token_ids, state, memory):
        hidden, _ = self.cell(self.embedding(token_ids), [state["hidden"]])
        return self.head(hidden + memory["context"]), {**state, "hidden": hidden}


def test_default_call_forgets_the_dropout_masks_of_cells():
    decoder = DecoderWithCellDropout()
    before, after = train(decoder)
    assert not np.allclose(before[0], after[0])
    results = [numpy(decoder(TOKEN_IDS, **ENCODED, training=True)) for _ in range(2)]
    assert not np.allclose(*results)


def test_default_call_joins_masks_of_the_source():
    decoder = DecoderWithDropout()
    mask = np.array([[True, True, True, True], [True, True, True, False]])
    outputs = ENCODED["encoder_outputs"] * mask[:, :, None]
    expected = numpy(decoder(TOKEN_IDS, outputs, ENCODED["encoder_mask"] & mask))
    masked = keras.layers.Masking()(outputs)
    assert_close(numpy(decoder(TOKEN_IDS, masked, ENCODED["encoder_mask"])), expected)
    assert_close(numpy(decoder(TOKEN_IDS, masked)), numpy(decoder(TOKEN_IDS, outputs, mask)))


def test_default_call_in_mixed_precision():
    with precision("mixed_bfloat16"):
        decoder = make_rnn_decoder("luong")
    encoded = {**ENCODED, "encoder_state": ENCODER_STATE}
    expected = numpy(decoder(TOKEN_IDS, **encoded))
    decoder.call = functools.partial(StepDecoder.call, decoder)
    received = numpy(decoder(TOKEN_IDS, **encoded))
    assert received.dtype == "float32"
    assert_close(received, expected)


def test_default_call_returns_features_of_advance_only():
    decoder = make_rnn_decoder("luong")
    encoded = {**ENCODED, "encoder_state": ENCODER_STATE}
    decoder(TOKEN_IDS, **encoded)
    token_ids, tensors = tree.map_structure(ops.convert_to_tensor, (TOKEN_IDS, encoded))
    features = StepDecoder.call(decoder, token_ids, **tensors, return_features=True)
    expected = numpy(decoder(TOKEN_IDS, **encoded, return_features=True))
    assert_close(numpy(features), expected)
    with pytest.raises(ValueError, match="without the method `advance`.*SmallDecoder"):
        StepDecoder.call(SmallDecoder(), TOKEN_IDS, **ENCODED, return_features=True)


@slow_on_jax
def test_examples_in_docstring_satisfy_the_contract():
    examples = doctest.DocTestParser().get_examples(StepDecoder.__doc__ or "")
    scope = {"StepDecoder": StepDecoder, "keras": keras, "ops": ops}
    exec("\n".join(example.source for example in examples), scope)
    check_decoder(scope["BigramDecoder"], ENCODED, TOKEN_IDS)
    check_decoder(lambda: scope["AttentionDecoder"](5, 4), ENCODED, TOKEN_IDS)
