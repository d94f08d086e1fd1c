"""What all searches share: their arguments, and the ways to run them."""

import keras
import numpy as np
import pytest

from keras_attn import (
    BeamDecoder,
    GreedyDecoder,
    RNNDecoder,
    Search,
    rnn_seq2seq,
    search_model,
)
from tests.backend import requires_tensorflow
from tests.contracts import assert_close, numpy, randomize
from tests.search.table_decoder import TableDecoder, random_tables

IDS = np.array([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0], [3, 2, 0, 0, 0]], "int32")
SEARCHES = {
    "greedy": lambda decoder: GreedyDecoder(decoder, max_length=8, return_alignments=True),
    "beam": lambda decoder: BeamDecoder(
        decoder, 3, num_hypotheses=2, max_length=8, return_alignments=True
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
    return search_model(encoder, SEARCHES[request.param](decoder))


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
    tables = random_tables(0)
    search = BeamDecoder(TableDecoder(), 2, max_length=5)
    mask = np.ones(tables.shape[:2], "bool")
    assert_close(numpy(search(tables)), numpy(search(tables, mask)))


def test_scores_do_not_depend_on_the_precision_of_the_layers(encoder_and_decoder):
    encoder, decoder = encoder_and_decoder
    search = BeamDecoder(decoder, 2, max_length=8, dtype="float16")
    results = numpy(search(**encoder(IDS), length_penalty=np.float32(1.1)))
    expected = BeamDecoder(decoder, 2, max_length=8)
    expected = numpy(expected(**encoder(IDS), length_penalty=np.float32(1.1)))
    assert results["scores"].dtype == "float32"
    assert_close(results, expected)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        encoder, decoder = rnn_seq2seq(10, 11, embedding_dim=4, units=4, seed=0)
        search = SEARCHES["beam"](decoder)
        results = numpy(search(**encoder(IDS)))
    finally:
        keras.config.set_dtype_policy("float32")
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": -1}, "Expected 0 <= min_length <= max_length. Received: min_length=0, max"),
        ({"min_length": -1}, "Received: min_length=-1"),
        ({"min_length": 9, "max_length": 8}, "Received: min_length=9, max_length=8"),
        ({"length_penalty_form": "mean"}, "must be one of .* Received: length_penalty_form='mean"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        GreedyDecoder(TableDecoder(), **arguments)


def test_a_search_must_say_how_it_advances():
    class Unfinished(Search):
        pass

    search = Unfinished(TableDecoder())
    for call in (
        lambda: search.start({}, None, None),
        lambda: search.advance({}, {}, None, None),
        lambda: search.finish({}),
    ):
        with pytest.raises(NotImplementedError, match="Unfinished must override"):
            call()
