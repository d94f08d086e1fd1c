"""A call with a smaller `beam_width` gives the results of a search that was created with it."""

import keras
import numpy as np
import pytest

from keras_attn import (
    BahdanauAttention,
    BeamDecoder,
    CausalLanguageModel,
    CoverageAttention,
    EnsembleDecoder,
    EnsembleEncoder,
    LocalAttention,
    LocationSensitiveAttention,
    LuongAttention,
    MonotonicAttention,
    MultiHeadAttention,
    RotaryPositions,
    TransformerDecoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, assert_identical, numpy, randomize
from tests.slow_cases import all_slow_but

SOURCES = np.array([[5, 6, 7, 8, 9, 2], [5, 7, 2, 0, 0, 0], [11, 4, 3, 9, 2, 0]], "int32")
PREFIXES = np.array([[4, 5], [0, 0], [7, 0]], "int32")
WIDEST = 5


def rnn(attention="luong"):
    return rnn_seq2seq(20, 26, attention=attention, units=8, embedding_dim=8)


def transformer(cache_block_size=None, growing_cache=None, **arguments):
    sizes = {"num_layers": 2, "num_heads": 2, "embedding_dim": 8, "intermediate_dim": 16}
    encoder, decoder = transformer_seq2seq(20, 26, **sizes, **arguments)
    decoder.cache_block_size, decoder.growing_cache = cache_block_size, growing_cache
    return encoder, decoder


def language_model(**stack):
    block = TransformerDecoderBlock(2, 12, cross_attention=False, rotary=RotaryPositions())
    embedding = keras.layers.ReversibleEmbedding(26, 8)
    decoder = CausalLanguageModel(block, embedding, num_layers=2, **stack)
    return lambda ids: {"encoder_outputs": ids, "encoder_mask": ids != 0}, decoder


def ensemble():
    encoders, decoders = zip(rnn(), transformer(), strict=True)
    return EnsembleEncoder(encoders), EnsembleDecoder(decoders)


MODELS = {
    "rnn": rnn,
    "rnn, bahdanau": lambda: rnn("bahdanau"),
    "rnn, coverage": lambda: rnn(CoverageAttention(8)),
    "rnn, local": lambda: rnn(LocalAttention(LuongAttention("general"))),
    "rnn, location": lambda: rnn(LocationSensitiveAttention(8)),
    "rnn, monotonic": lambda: rnn(MonotonicAttention(BahdanauAttention(8))),
    "rnn, heads": lambda: rnn(MultiHeadAttention(2, 4)),
    "transformer": transformer,
    "transformer, rotary": lambda: transformer(positions="rotary"),
    "transformer, alibi": lambda: transformer(positions="alibi"),
    "transformer, blocks": lambda: transformer(cache_block_size=3),
    "language model": language_model,
    "language model, blocks": lambda: language_model(cache_block_size=2),
    "ensemble": ensemble,
}
SEARCHES = {
    "default": {},
    "one hypothesis": {"num_hypotheses": 1, "stop": "exact"},
    "all outputs": {
        "return_alignments": True,
        "return_token_log_probs": True,
        "return_top_tokens": 3,
        "coverage_penalty": 0.3,
    },
    "dead ends": {"no_repeat_ngram_size": 1, "suppressed_token_ids": list(range(8, 26))},
    "dead ends, coverage": {
        "no_repeat_ngram_size": 1,
        "suppressed_token_ids": list(range(8, 26)),
        "stop": "heuristic",
        "coverage_penalty": 0.3,
    },
    "forced": {"forced_prefix_ids": [4, 5], "force_end_token": True, "min_length": 4},
    "patience": {"patience": 1.6, "repetition_penalty": 1.3},
}
CASES = [(model, "default") for model in MODELS] + [
    (model, search) for model in ("rnn", "transformer") for search in list(SEARCHES)[1:]
]
FAST = [
    ("rnn", "default"),
    ("rnn", "dead ends, coverage"),
    ("transformer", "forced"),
    ("transformer", "all outputs"),
    ("transformer, rotary", "default"),
    ("language model, blocks", "default"),
]


@pytest.fixture(scope="module")
def models():
    return {}


def prepared(models, name):
    """A decoder with random weights, and the encoder's results."""
    if name not in models:
        encoder, decoder = MODELS[name]()
        BeamDecoder(decoder, beam_width=2, max_length=2)(**encoder(SOURCES))
        layers = [layer for layer in (encoder, decoder) if isinstance(layer, keras.Layer)]
        for layer in layers:
            randomize(layer)
        models[name] = decoder, encoder(SOURCES)
    return models[name]


def search_of(decoder, name, beam_width):
    arguments = {"num_hypotheses": 4, **SEARCHES[name]}
    arguments["num_hypotheses"] = min(beam_width, arguments["num_hypotheses"])
    return BeamDecoder(decoder, beam_width=beam_width, max_length=8, **arguments)


def assert_follows(received, expected):
    """Whether the first hypotheses are equal and the others are missing."""
    count = expected["scores"].shape[1]
    assert np.all(received["scores"][:, count:] == -1e9)
    assert not received["lengths"][:, count:].any()
    for name, values in expected.items():
        assert received[name].shape[2:] == values.shape[2:], name
        compare = assert_identical if name in ("token_ids", "lengths") else assert_close
        compare(received[name][:, :count], values)


@pytest.mark.parametrize(
    ("model", "search"), all_slow_but(FAST[0], FAST[3], cases=CASES, on_jax=FAST[:1])
)
def test_an_int(models, model, search):
    decoder, encoded = prepared(models, model)
    widest = search_of(decoder, search, WIDEST)
    for beam_width in (1, 3, WIDEST):
        received = numpy(widest(**encoded, settings={"beam_width": beam_width}))
        assert received["scores"].shape[1] == widest.num_hypotheses
        assert_follows(received, numpy(search_of(decoder, search, beam_width)(**encoded)))


@requires_tensorflow("a width that is not known when the search is traced")
@pytest.mark.parametrize(("model", "search"), all_slow_but(*FAST, cases=CASES))
def test_a_tensor(models, model, search):
    import tensorflow as tf

    decoder, encoded = prepared(models, model)
    widest = search_of(decoder, search, WIDEST)
    has_prefix = search == "forced"
    given = {"prefix_ids": PREFIXES} if has_prefix else {}

    @tf.function(input_signature=[tf.TensorSpec((), tf.int32)], autograph=False)
    def in_graph(beam_width):
        return widest(**encoded, **given, settings={"beam_width": beam_width})

    for beam_width in (1, 3, WIDEST):
        received = numpy(in_graph(tf.constant(beam_width)))
        assert received["scores"].shape[1] == widest.num_hypotheses
        assert_follows(received, numpy(search_of(decoder, search, beam_width)(**encoded, **given)))
    if (model, search) == CASES[0]:
        for beam_width, nearest in ((0, 1), (9, WIDEST)):
            for name, values in numpy(in_graph(tf.constant(beam_width))).items():
                assert_identical(values, numpy(in_graph(tf.constant(nearest)))[name])


@requires_tensorflow("growing_cache=False is for other backends")
def test_a_tensor_needs_tensors_that_grow():
    import tensorflow as tf

    encoder, decoder = transformer(growing_cache=False)
    encoded, search = encoder(SOURCES), BeamDecoder(decoder, max_length=4)
    assert numpy(search(**encoded, settings={"beam_width": 2}))["lengths"].shape == (3, 1)
    in_graph = tf.function(lambda width: search(**encoded, settings={"beam_width": width}))
    with pytest.raises(ValueError, match="Expected an int beam_width for a decoder with tensors"):
        in_graph(tf.constant(2))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="a message for JAX")
def test_jax_needs_an_int():
    import jax

    encoder, decoder = rnn()
    encoded, search = encoder(SOURCES), BeamDecoder(decoder, max_length=4)
    with pytest.raises(ValueError, match="Expected an int beam_width.*backend='jax'"):
        jax.jit(lambda width: search(**encoded, settings={"beam_width": width}))(2)


@pytest.mark.parametrize(
    ("arguments", "value", "message"),
    [
        ({"beam_width": 3}, 4, "Expected beam_width of at most 3"),
        ({"beam_width": 3}, 0, "Expected beam_width to be"),
        ({"beam_width": 3}, 1.5, "Expected beam_width to be"),
        ({"beam_width": 4, "num_groups": 2}, 2, "Expected settings out of"),
        ({"beam_width": 1}, 1, "Expected settings out of"),
    ],
    ids=str,
)
def test_refuses(models, arguments, value, message):
    decoder, encoded = prepared(models, "rnn")
    with pytest.raises(ValueError, match=message):
        BeamDecoder(decoder, **arguments)(**encoded, settings={"beam_width": value})
