import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CombinedAttention,
    CoverageAttention,
    GenerationModel,
    IntraDecoderAttention,
    LuongAttention,
    MultiHeadAttention,
    RNNDecoder,
)
from keras_attn.testing import check_decoder, check_layer
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.slow_cases import slow_on_jax

GENERATOR = np.random.default_rng(0)
QUERY = GENERATOR.normal(size=(2, 3, 4)).astype("float32")
VALUE = {
    "text": GENERATOR.normal(size=(2, 6, 5)).astype("float32"),
    "image": GENERATOR.normal(size=(2, 4, 3)).astype("float32"),
}
MASK = {
    "text": np.array([[True] * 6, [True] * 3 + [False] * 3]),
    "image": np.array([[True, True, False, False], [True] * 4]),
}


def make(combination="concatenate", **others):
    attentions = {"text": BahdanauAttention(6), "image": LuongAttention("general"), **others}
    return CombinedAttention(attentions, combination, units=7)


def built(combination):
    layer = make(combination)
    layer(QUERY, VALUE)
    return randomize(layer)


def parts_of(layer):
    """Contexts and weights of each attention alone."""
    return {
        name: numpy(
            attention(QUERY, VALUE[name], attention_mask=MASK[name], return_attention_scores=True)
        )
        for name, attention in zip(layer.names, layer.attentions, strict=True)
    }


def test_contexts_side_by_side():
    layer = built("concatenate")
    context, weights = numpy(layer(QUERY, VALUE, MASK, return_attention_scores=True))
    parts = parts_of(layer)
    assert_close(context, np.concatenate([parts["text"][0], parts["image"][0]], axis=-1))
    assert_close(weights, parts["text"][1])


def test_a_gate_equals_the_equations():
    layer = built("gate")
    contexts = [context for context, _ in parts_of(layer).values()]
    kernels = numpy([layer.score_kernels, layer.context_kernels])
    query = QUERY @ numpy(layer.query_kernel)
    vector = numpy(layer.vector)
    scores = [np.tanh(query + c @ u) @ vector for c, u in zip(contexts, kernels[0], strict=True)]
    shares = np.exp(scores) / np.sum(np.exp(scores), axis=0)
    expected = sum(s * (c @ p) for s, c, p in zip(shares, contexts, kernels[1], strict=True))
    assert_close(numpy(layer(QUERY, VALUE, MASK)), expected)


@pytest.mark.parametrize("combination", ["concatenate", "gate"])
def test_is_a_good_layer(combination):
    inputs = {"query": QUERY, "value": VALUE, "attention_mask": MASK}
    check_layer(lambda: make(combination), inputs)


def test_several_attentions_to_one_memory():
    layer = CombinedAttention({"a": LuongAttention(), "b": MultiHeadAttention(2, 3)})
    context, weights = layer(QUERY, VALUE["text"], return_attention_scores=True)
    assert tuple(context.shape) == (2, 3, 5 + 4) and tuple(weights.shape) == (2, 3, 6)


def test_the_weights_of_several_heads_are_known_by_their_shape_before():
    layer = CombinedAttention({"a": MultiHeadAttention(2, 3), "b": LuongAttention()})
    inputs = keras.Input(QUERY.shape[1:]), keras.Input(VALUE["text"].shape[1:])
    model = keras.Model(inputs, layer(*inputs, return_attention_scores=True))
    _, weights = model([QUERY, VALUE["text"]])
    assert model.outputs[1].shape[1:] == tuple(weights.shape)[1:] == (3, 6)


def test_a_memory_without_a_mask_is_not_masked_like_another():
    layer = make()
    mask = {"text": MASK["text"]}
    everything = {**mask, "image": np.ones_like(MASK["image"])}
    assert_identical(numpy(layer(QUERY, VALUE, mask)), numpy(layer(QUERY, VALUE, everything)))


def test_the_implicit_masks_of_the_memories_count():
    embed = keras.layers.Embedding(9, 4, mask_zero=True)
    ids = {"text": np.array([[3, 4, 5, 0], [6, 0, 0, 0]]), "image": np.array([[7, 0], [8, 1]])}
    value = {name: embed(each) for name, each in ids.items()}
    layer = make()
    _, weights = numpy(layer(QUERY, value, return_attention_scores=True))
    assert (weights[np.repeat(ids["text"][:, None] == 0, 3, axis=1)] == 0).all()
    masks = {name: each != 0 for name, each in ids.items()}
    assert_identical(numpy(layer(QUERY, value)), numpy(layer(QUERY, value, masks)))


@pytest.mark.parametrize(
    ("value", "mask"),
    [
        ({"image": VALUE["image"]}, None),
        ({"text": VALUE["text"], "imgae": VALUE["image"]}, None),
        (VALUE, {"txt": MASK["text"]}),
        (VALUE, MASK["text"]),
        (VALUE["text"], MASK),
    ],
)
def test_names_that_do_not_fit_are_refused(value, mask):
    with pytest.raises(ValueError, match="value to be a dict with keys from .*Received: value wi"):
        make()(QUERY, value, mask)


ENCODED = {"encoder_outputs": VALUE["text"], "encoder_mask": MASK["text"]}
TOKEN_IDS = np.array([[1, 5, 3, 6], [1, 4, 4, 2]], "int32")


def decoder_of(attention):
    cell = AttentionRNNCell(keras.layers.GRUCell(4), attention, attention_units=5)
    return RNNDecoder(cell, keras.layers.Embedding(7, 3), head=keras.layers.Dense(7))


@slow_on_jax
@pytest.mark.parametrize("combination", ["concatenate", "gate"])
def test_a_decoder_that_sees_the_source_and_its_own_past(combination):
    def make_decoder():
        attentions = {
            "source": CoverageAttention(6),
            "past": IntraDecoderAttention(LuongAttention("general")),
        }
        return decoder_of(CombinedAttention(attentions, combination, units=5))

    check_decoder(make_decoder, ENCODED, TOKEN_IDS)


def test_a_decoder_with_several_memories():
    decoder = decoder_of(make())
    logits = numpy(decoder(TOKEN_IDS, VALUE, MASK))
    padded = {
        name: np.pad(value, ((0, 0), (0, 2), (0, 0)), constant_values=9.0)
        for name, value in VALUE.items()
    }
    masks = {name: np.pad(mask, ((0, 0), (0, 2))) for name, mask in MASK.items()}
    assert_close(numpy(decoder(TOKEN_IDS, padded, masks)), logits)
    other = {**VALUE, "image": -VALUE["image"]}
    assert np.abs(numpy(decoder(TOKEN_IDS, other, MASK)) - logits).max() > 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({},), "attentions to be a dict"),
        (([LuongAttention()],), "attentions to be a dict"),
        (({"a": LuongAttention()}, "sum"), "combination to be one of .* combination='sum'"),
        (({"a": LuongAttention()}, "gate"), "units to be a positive integer"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CombinedAttention(*arguments)


class TwoSources(keras.layers.Layer):
    """An encoder with two memories, and features of the first id for the queries."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(50, 5)

    def call(self, source_ids):
        embedded = self.embedding(source_ids)
        return {
            "encoder_outputs": {"text": embedded, "image": ops.flip(embedded, axis=1)[:, :, :3]},
            "encoder_mask": {"text": source_ids != 0, "image": ops.flip(source_ids != 0, axis=1)},
            "query_features": embedded[:, 0],
        }

    def compute_mask(self, inputs, previous_mask):
        return None


def make_translator():
    attention = make(past=IntraDecoderAttention(LuongAttention("general")))
    query = ("cell_output", "inputs", "features")
    cell = AttentionRNNCell(keras.layers.GRUCell(4), attention, attention_units=5, query_from=query)
    decoder = RNNDecoder(
        cell, keras.layers.Embedding(50, 3), head=keras.layers.Dense(50), bridge="zero"
    )
    search = BeamDecoder(decoder, beam_width=3, max_length=12, name="search")
    translator = GenerationModel(TwoSources(name="encoder"), search)
    keras.utils.set_random_seed(4)
    for weight in translator.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.7))
    return translator


def test_several_memories_and_features_are_searched():
    """The probability that a search finds is that of teacher forcing with all of them."""
    encoder, search = make_translator().layers[1:]
    source_ids = np.array([[5, 6, 7, 8], [9, 4, 0, 0], [1, 2, 3, 0]], "int32")
    encoded = encoder(source_ids)
    found = numpy(search(**encoded))
    token_ids, lengths = found["token_ids"][:, 0], found["lengths"][:, 0]
    inputs = np.pad(token_ids[:, :-1], ((0, 0), (1, 0)), constant_values=1)

    def log_probs(**changed):
        logits = search.decoder(inputs, **{**encoded, **changed})
        each = numpy(keras.ops.log_softmax(logits))
        each = np.take_along_axis(each, token_ids[:, :, None], axis=2)[:, :, 0]
        has_end = (token_ids == 2).any(axis=1)
        rows = zip(each, lengths, has_end, strict=True)
        return np.array([row[: length + end].sum() for row, length, end in rows])

    assert_close(log_probs(), found["log_probs"][:, 0], 1e-4)
    memories = encoded["encoder_outputs"]
    others = {
        "encoder_outputs": {**memories, "text": memories["text"] * 2},
        "query_features": encoded["query_features"] * 2,
    }
    for name, value in others.items():  # each of them counts
        assert np.abs(log_probs(**{name: value}) - log_probs()).max() > 1e-3


@pytest.mark.slow
@requires_tensorflow("exports to ONNX")
def test_several_memories_are_searched_and_exported(tmp_path):
    from keras_attn.export import export_onnx

    translator = make_translator()
    assert export_onnx(translator, tmp_path / "two.onnx", alignments=True).best_equal == 1.0
