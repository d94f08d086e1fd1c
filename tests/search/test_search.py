"""What all searches share: their arguments, and the ways to run them."""

import functools
import inspect
import json
import re

import keras
import numpy as np
import pytest

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    CombinedAttention,
    GenerationModel,
    GreedyDecoder,
    IntraDecoderAttention,
    LuongAttention,
    RNNDecoder,
    SamplingDecoder,
    Search,
    TrainingModel,
    TransformerDecoder,
    TransformerDecoderBlock,
    rnn_seq2seq,
    transformer_seq2seq,
)
from tests.backend import precision, requires_tensorflow
from tests.contracts import assert_close, numpy, randomize
from tests.search.table_decoder import TableDecoder, random_tables
from tests.slow_cases import all_slow_but

IDS = np.array([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [3, 2, 0, 0, 0]], "int32")
POSITIONAL = ("self", "decoder", "kwargs")
SEARCHES = {
    "greedy": lambda decoder: GreedyDecoder(decoder, max_length=8, return_alignments=True),
    "beam": lambda decoder: BeamDecoder(
        decoder, beam_width=3, num_hypotheses=2, max_length=8, return_alignments=True
    ),
}


@pytest.fixture(scope="module")
def encoder_and_decoder():
    encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
    decoder(IDS, **encoder(IDS))
    # Weights with which the sentences have hypotheses of several lengths.
    return randomize(encoder, 1.0, seed=6), randomize(decoder, 1.0, seed=8)


@pytest.fixture(params=SEARCHES)
def translator(request, encoder_and_decoder):
    encoder, decoder = encoder_and_decoder
    return GenerationModel(encoder, SEARCHES[request.param](decoder))


def test_predict_gives_what_a_call_gives(translator):
    results = numpy(translator(IDS))
    assert results["token_ids"].dtype == results["lengths"].dtype == "int32"
    assert results["scores"].dtype == results["log_probs"].dtype == "float32"
    assert len(set(results["lengths"][:, 0])) > 1
    assert_close(translator.predict(IDS, verbose=0), results)


def test_saved_and_loaded_it_finds_the_same(translator, tmp_path):
    translator.save(tmp_path / "translator.keras")
    loaded = keras.models.load_model(tmp_path / "translator.keras")
    assert_close(numpy(loaded(IDS)), numpy(translator(IDS)))
    (search,) = [layer for layer in loaded.layers if isinstance(layer, Search)]
    (original,) = [layer for layer in translator.layers if isinstance(layer, Search)]
    for name in ("name", "max_length", "length_penalty_form", "suppressed_token_ids"):
        assert search.get_config()[name] == original.get_config()[name]
    assert tuple(search.relative_max_length) == original.relative_max_length


def test_a_copy_has_all_settings():
    settings = {
        "beam_width": 3,
        "num_hypotheses": 2,
        "stop": "exact",
        "patience": 2.0,
        "max_length": 9,
        "relative_max_length": (3, 1),
        "min_length": 2,
        "length_penalty": 0.6,
        "length_penalty_form": "gnmt",
        "start_token_id": 4,
        "end_token_id": 5,
        "other_end_token_ids": [7],
        "pad_token_id": 6,
        "suppressed_token_ids": [6, 8],
        "suppressed_sequences": [[1, 2], [3, 3, 8]],
        "forced_prefix_ids": [3, 8],
        "score_prefix": False,
        "force_end_token": True,
        "return_alignments": True,
        "return_token_log_probs": True,
        "return_top_tokens": 3,
    }
    search = BeamDecoder(TableDecoder(), **settings)
    copy = BeamDecoder.from_config(search.get_config())
    for name, value in settings.items():
        assert getattr(copy, name) == getattr(search, name) == value


@requires_tensorflow("tf.function")
def test_in_a_function_with_unknown_sizes(translator):
    import tensorflow as tf

    search = next(layer for layer in translator.layers if isinstance(layer, Search))
    encoder = next(layer for layer in translator.layers if layer is not search and layer.weights)

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, None), "int32"),
            tf.TensorSpec((), "int32"),
            tf.TensorSpec((), "float32"),
        ]
    )
    def translate(source_ids, max_length, length_penalty):
        encoded = encoder(source_ids)
        return search(**encoded, max_length=max_length, length_penalty=length_penalty)

    encoded = encoder(IDS)
    for max_length, penalty in ((8, 1.0), (3, 0.0), (20, 2.0), (0, 1.0)):
        expected = search(**encoded, max_length=max_length, length_penalty=penalty)
        assert_close(numpy(translate(IDS, max_length, penalty)), numpy(expected))
    assert_close(
        numpy(translate(IDS[:1], 8, 1.0))["scores"], numpy(translate(IDS, 8, 1.0))["scores"][:1]
    )

    # A batch of zero sentences has zero results.
    hypotheses = 2 if isinstance(search, BeamDecoder) else 1
    empty = numpy(translate(np.zeros((0, 4), "int32"), 8, 1.0))
    assert empty["token_ids"].shape == (0, hypotheses, 0)
    assert empty["lengths"].shape == empty["scores"].shape == (0, hypotheses)
    assert empty["alignments"].shape == (0, hypotheses, 0, 4)

    # A source of nothing has a result, and an end.
    nothing = numpy(translate(np.zeros((2, 4), "int32"), 8, 1.0))
    assert np.isfinite(nothing["scores"]).all() and (nothing["lengths"][:, 0] <= 8).all()
    assert not nothing["alignments"].any()


@requires_tensorflow("Other backends fix the lengths of a loop.")
@pytest.mark.parametrize("name", all_slow_but("beam", cases=[*SEARCHES, "sampling"]))
@pytest.mark.parametrize(
    "make",
    [
        lambda: rnn_seq2seq(10, 11, units=8, embedding_dim=8, seed=0),
        lambda: transformer_seq2seq(
            10, 11, num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=0
        ),
    ],
    ids=["rnn", "transformer"],
)
def test_in_a_function_that_knows_all_sizes_and_values(name, make):
    import tensorflow as tf

    memory = np.random.default_rng(0).normal(size=(3, 4, 8)).astype("float32")
    search = {**SEARCHES, "sampling": SamplingDecoder}[name](make()[1])
    given = {"seeds": np.arange(3, dtype="int32")} if search.is_stochastic else {}
    expected = numpy(search(memory, max_length=5, **given))  # without a mask: it is made of shapes
    in_graph = tf.function(lambda: search(tf.constant(memory), max_length=5, **given))()
    assert_close(numpy(in_graph), expected)


def test_compiled_with_jit(translator):
    expected = numpy(translator(IDS))
    if keras.backend.backend() == "tensorflow":
        with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
            translator.compile(jit_compile=True)  # tensors that grow cannot be compiled
    else:
        translator.compile(jit_compile=True)
    assert_close(translator.predict(IDS, verbose=0), expected)


def test_the_dropout_of_training_plays_no_part(encoder_and_decoder):
    encoder, decoder = encoder_and_decoder
    assert encoder.dropout and decoder.dropout
    search = SEARCHES["beam"](decoder)
    first, second = numpy(search(**encoder(IDS))), numpy(search(**encoder(IDS)))
    assert_close(first, second, 0)


def test_without_a_mask_the_whole_source_counts():
    tables = random_tables(0, end_logit=-50.0)
    search = BeamDecoder(TableDecoder(), beam_width=2, max_length=50, relative_max_length=(1, 0))
    results = numpy(search(tables))
    assert (results["lengths"] == tables.shape[1]).all()
    assert_close(results, numpy(search(tables, np.ones(tables.shape[:2], "bool"))))


def test_scores_do_not_depend_on_the_precision_of_the_layers(encoder_and_decoder):
    encoder, decoder = encoder_and_decoder
    search = BeamDecoder(decoder, beam_width=2, max_length=8, dtype="float16")
    results = numpy(search(**encoder(IDS), length_penalty=np.float32(1.1)))
    expected = BeamDecoder(decoder, beam_width=2, max_length=8)
    expected = numpy(expected(**encoder(IDS), length_penalty=np.float32(1.1)))
    assert results["scores"].dtype == "float32"
    assert_close(results, expected)


def test_mixed_precision():
    with precision("mixed_float16"):
        encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
        search = SEARCHES["beam"](decoder)
        results = numpy(search(**encoder(IDS)))
    assert results["scores"].dtype == results["log_probs"].dtype == "float32"
    assert results["alignments"].dtype == "float16"
    assert np.isfinite(results["scores"]).all() and (results["log_probs"] > -1e8).all()


@pytest.mark.parametrize("name", SEARCHES)
def test_alignments_need_attention(name):
    decoder = RNNDecoder(
        keras.layers.GRUCell(6), keras.layers.ReversibleEmbedding(11, 6), bridge="zero"
    )
    with pytest.raises(ValueError, match="alignments"):
        SEARCHES[name](decoder)(np.ones((2, 3, 4), "float32"))


def test_weights_over_the_own_past_are_no_alignments():
    attentions = {"past": IntraDecoderAttention(LuongAttention("general"))}
    attentions["source"] = BahdanauAttention(4)
    cell = AttentionRNNCell(
        keras.layers.GRUCell(6), CombinedAttention(attentions), attention_units=6
    )
    decoder = RNNDecoder(cell, keras.layers.ReversibleEmbedding(11, 6), bridge="zero")
    search = GreedyDecoder(decoder, max_length=3, return_alignments=True)
    with pytest.raises(ValueError, match="Expected attention to the source for alignments=True"):
        search(np.ones((2, 3, 4), "float32"))


@pytest.mark.parametrize("name", all_slow_but("beam", cases=SEARCHES))
@pytest.mark.parametrize(
    "dtype", all_slow_but("mixed_bfloat16", cases=["mixed_bfloat16", "float32"])
)
def test_search_with_a_decoder_of_another_dtype_than_the_encoder(name, dtype):
    """In a graph, the state that a loop begins with must have the dtype of the one after a step."""
    other = "float32" if dtype == "mixed_bfloat16" else "mixed_bfloat16"
    cell = AttentionRNNCell(
        keras.layers.LSTMCell(6, dtype=dtype),
        BahdanauAttention(4, dtype=dtype),
        attention_units=6,
        dtype=dtype,
    )
    embedding = keras.layers.ReversibleEmbedding(11, 6)
    with pytest.raises(ValueError, match="its cell with the same compute dtype"):
        RNNDecoder(cell, embedding, dtype=other)
    decoder = RNNDecoder(cell, embedding, dtype=dtype)
    with precision(other):
        encoder = rnn_seq2seq(10, 11, embedding_dim=6, units=6, seed=0)[0]
    found = GenerationModel(encoder, SEARCHES[name](decoder)).predict(IDS, verbose=0)
    assert np.isfinite(found["log_probs"]).all()
    ids = {"source_ids": IDS, "target_ids": IDS}
    logits = TrainingModel(encoder, decoder).predict(ids, verbose=0)
    assert np.isfinite(logits).all()


def test_numbers_of_numpy_are_taken_for_those_of_python():
    numbers = {"pad_token_id": 0, "start_token_id": 1, "end_token_id": 2, "min_length": 1}
    given = {name: np.int64(number) for name, number in numbers.items()}
    search = GreedyDecoder(
        TableDecoder(), max_length=4, suppressed_token_ids=np.array([3]), **given
    )
    config = search.get_config()
    numbers["suppressed_token_ids"] = [3]
    assert json.loads(json.dumps({name: config[name] for name in numbers})) == numbers
    assert numpy(search(random_tables(1)))["token_ids"].dtype == "int32"
    numbers = {"beam_width": 4, "num_hypotheses": 2, "num_groups": 2}
    given = {name: np.int64(number) for name, number in numbers.items()}
    config = BeamDecoder(TableDecoder(), **given).get_config()
    assert json.loads(json.dumps({name: config[name] for name in numbers})) == numbers


def test_suppressed_ids_can_be_iterated_once():
    search = GreedyDecoder(TableDecoder(), suppressed_token_ids=map(int, ["3", "4"]))
    assert search.suppressed_token_ids == [3, 4]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": -1}, r"an integer in \[0, 2\*\*31\). Received: max_length=-1"),
        ({"max_length": 2**31}, "Received: max_length=2147483648"),
        ({"min_length": -1}, "Received: min_length=-1"),
        ({"max_length": 2.7}, "an integer .* Received: max_length=2.7"),
        ({"max_length": None}, "an integer .* Received: max_length=None"),
        (
            {"relative_max_length": (2, None)},
            r"tuple of two numbers.* relative_max_length=\(2, None\)",
        ),
        ({"min_length": 9, "max_length": 8}, "Received: min_length=9, max_length=8"),
        ({"length_penalty_form": "mean"}, "to be one of .* Received: length_penalty_form='mean"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        GreedyDecoder(TableDecoder(), **arguments)


def test_a_model_of_a_sampler_draws_what_its_layers_draw(encoder_and_decoder):
    encoder, decoder = encoder_and_decoder
    search, other = (
        SamplingDecoder(decoder, num_hypotheses=2, max_length=8, seed=1) for _ in range(2)
    )
    expected = numpy(search(**encoder(IDS)))["token_ids"]
    found = GenerationModel(encoder, other).predict_on_batch(IDS)["token_ids"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("search", [BeamDecoder, GreedyDecoder, SamplingDecoder])
def test_search_lists_all_options_as_keywords_with_one_default(search):
    parameters = inspect.signature(search.__init__).parameters
    for name, option in inspect.signature(Search.__init__).parameters.items():
        assert parameters[name] == option
    assert {option.kind for name, option in parameters.items() if name not in POSITIONAL} == {
        inspect.Parameter.KEYWORD_ONLY
    }


def test_search_with_unknown_option_lists_the_valid_ones():
    with pytest.raises(ValueError, match="beam_width, .*max_length, .*Received: beam_size=4"):
        BeamDecoder(TableDecoder(), beam_size=4)


def test_a_search_must_say_how_it_advances():
    class Unfinished(Search):
        pass

    search = Unfinished(TableDecoder())
    for call in (
        lambda: search.start({}, None, None, None),
        lambda: search.advance({}, {}, None, None),
    ):
        with pytest.raises(NotImplementedError, match="Unfinished must override"):
            call()


@pytest.mark.parametrize(
    "make", [GreedyDecoder, BeamDecoder, functools.partial(SamplingDecoder, seed=0)]
)
@pytest.mark.parametrize("other", ["start_token_id", "pad_token_id"])
def test_the_end_may_be_the_start_or_padding_too(make, other):
    tables = random_tables(3, end_logit=4.0)
    results = numpy(make(TableDecoder(), max_length=20, **{other: 2})(tables))
    assert (results["lengths"] < 20).all() and len(set(results["lengths"].flat)) > 1
    past_the_end = np.arange(results["token_ids"].shape[2]) - results["lengths"][..., None]
    is_end = past_the_end >= 0 if other == "pad_token_id" else past_the_end == 0
    np.testing.assert_array_equal(results["token_ids"] == 2, is_end)


@pytest.mark.parametrize("make", [GreedyDecoder, BeamDecoder, SamplingDecoder])
def test_with_zero_as_the_end_a_hypothesis_that_was_cut_has_none(make):
    """Other sentences go on, and what is behind a hypothesis is filled up until they end."""
    tables = random_tables(7)
    tables[:, :, 0] = -50.0  # nothing ends by itself
    mask = np.arange(tables.shape[1]) < np.array([[1], [2], [3], [4], [5], [9]])
    search = make(
        TableDecoder(), max_length=8, relative_max_length=(1, 0), end_token_id=0, pad_token_id=1
    )
    results = numpy(search(tables, mask))
    limits = np.array([1, 2, 3, 4, 5, 8])
    assert results["lengths"][:, 0].tolist() == limits.tolist()
    is_padding = np.arange(results["token_ids"].shape[2]) >= limits[:, None]
    np.testing.assert_array_equal(results["token_ids"][:, 0] == 1, is_padding)
    assert (results["token_ids"] != 0).all()


def test_the_implicit_mask_of_the_memory_counts():
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(np.minimum(IDS, 8))
    for decoder in (
        RNNDecoder(
            AttentionRNNCell(keras.layers.GRUCell(4), BahdanauAttention(4)),
            keras.layers.Embedding(7, 4),
            head=keras.layers.Dense(7),
        ),
        TransformerDecoder(
            TransformerDecoderBlock(2, 8), keras.layers.ReversibleEmbedding(7, 4), num_layers=1
        ),
    ):
        search = BeamDecoder(decoder, beam_width=2, max_length=8, relative_max_length=(1, 1))
        memory = numpy(embedded)
        expected = numpy(search(memory, IDS != 0)), numpy(decoder(IDS % 7, memory, IDS != 0))
        unmasked = numpy(decoder(IDS % 7, memory))
        assert_close(numpy(search(embedded)), expected[0])
        assert_close(numpy(decoder(IDS % 7, embedded)), expected[1])
        assert np.abs(unmasked - expected[1])[1:].max() > 1e-4


def test_no_limit_is_negative():
    tables = random_tables(3, batch=2)
    for relative, max_length in (((1, -50), 8), (None, -3)):
        search = GreedyDecoder(TableDecoder(), max_length=8, relative_max_length=relative)
        results = numpy(search(tables, max_length=max_length))
        assert not results["lengths"].any() and (results["token_ids"] == 0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"relative_max_length": 2},
        {"relative_max_length": (1, 2, 3)},
        {"relative_max_length": (float("nan"), 10)},
        {"length_penalty": float("nan")},
        {"length_penalty": float("inf")},
        {"length_penalty": "1"},
        {"pad_token_id": -1},
        {"start_token_id": "<s>"},
        {"end_token_id": 2.5},
        {"pad_token_id": None},
        {"suppressed_token_ids": ["<unk>"]},
        {"suppressed_token_ids": [0, 1.5]},
        {"start_token_id": -1},
        {"suppressed_token_ids": [3, -2]},
    ],
    ids=str,
)
def test_wrong_lengths_and_ids_are_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")):
        GreedyDecoder(TableDecoder(), **wrong)


@pytest.mark.parametrize("wrong", [{"end_token_id": 7}, {"suppressed_token_ids": [3, 9]}], ids=str)
def test_ids_outside_of_the_vocabulary_are_refused(wrong):
    with pytest.raises(ValueError, match="below the size of the vocabulary, 7"):
        GreedyDecoder(TableDecoder(), **wrong)(random_tables(1))


@pytest.mark.parametrize("factor", [1e10, float("inf")])
def test_a_relative_limit_beyond_integers_is_none(factor):
    search = BeamDecoder(
        TableDecoder(), beam_width=2, max_length=5, relative_max_length=(factor, 0)
    )
    expected = BeamDecoder(TableDecoder(), beam_width=2, max_length=5, relative_max_length=None)
    assert_close(numpy(search(random_tables(0))), numpy(expected(random_tables(0))))


RULES = {
    "greedy": lambda: GreedyDecoder(
        TableDecoder(), max_length=6, repetition_penalty=1.3, no_repeat_ngram_size=2
    ),
    "beam": lambda: BeamDecoder(
        TableDecoder(),
        beam_width=2,
        max_length=6,
        repetition_penalty=1.3,
        no_repeat_ngram_size=2,
        return_token_log_probs=True,
        return_alignments=True,
    ),
    "groups": lambda: BeamDecoder(
        TableDecoder(), beam_width=4, num_groups=2, max_length=6, min_length=2
    ),
    "exact": lambda: BeamDecoder(
        TableDecoder(), beam_width=2, max_length=6, stop="exact", coverage_penalty=0.2
    ),
    "sampling": lambda: SamplingDecoder(
        TableDecoder(), num_hypotheses=2, max_length=6, top_k=4, top_p=0.8, min_p=0.1, seed=1
    ),
}
SEEDS = np.arange(6, dtype="int32")
FIRST_TOKENS = np.array([[5], [4], [3], [0], [6], [5]])


def search_with_rules(name):
    arguments = {"seeds": SEEDS} if name == "sampling" else {}
    return numpy(RULES[name]()(random_tables(5), prefix_ids=FIRST_TOKENS, **arguments))


@pytest.mark.parametrize("name", all_slow_but(*RULES, cases=RULES, on_jax=["beam", "sampling"]))
def test_search_rules_do_not_depend_on_floatx(name):
    expected = search_with_rules(name)
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        received = search_with_rules(name)
    finally:
        keras.config.set_floatx(before)
    assert {key: value.dtype for key, value in received.items()} == {
        key: value.dtype for key, value in expected.items()
    }
    assert_close(received, expected)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="a setting of JAX")
@pytest.mark.parametrize("name", all_slow_but(*RULES, cases=RULES, on_jax=["beam", "sampling"]))
def test_search_rules_do_not_depend_on_jax_enable_x64(name):
    import jax

    expected = search_with_rules(name)
    with jax.enable_x64(True):
        received = search_with_rules(name)
    assert received["token_ids"].dtype == received["lengths"].dtype == "int32"
    assert_close(received, expected)


def test_limit_of_a_call_is_a_whole_number():
    search = GreedyDecoder(TableDecoder(), max_length=6)
    expected = numpy(search(random_tables(0), max_length=3))
    assert_close(numpy(search(random_tables(0), max_length=3.0)), expected)
    with pytest.raises(ValueError, match="max_length of an integer dtype. Received: max_length"):
        search(random_tables(0), max_length=2.7)
