"""Recurrent dropout is disabled at inference in all export formats."""

import keras
import numpy as np
import pytest
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import (
    AttentionRNNCell,
    BahdanauAttention,
    BeamDecoder,
    GenerationModel,
    RNNDecoder,
    RNNEncoder,
)
from keras_attn.export import (
    export_functional_onnx,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._checks.parity_sources import pad
from tests.export.small_translator import SOURCE, session

layers = keras.layers
RATES = {"dropout": 0.2, "recurrent_dropout": 0.3}


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.LSTM(3, **RATES),
        lambda: layers.GRU(3, return_sequences=True, **RATES),
        lambda: layers.SimpleRNN(3, **RATES),
        lambda: layers.Bidirectional(layers.LSTM(3, dropout=0.2)),
        lambda: layers.RNN(
            layers.StackedRNNCells([layers.GRUCell(3, **RATES), layers.LSTMCell(2, **RATES)])
        ),
        lambda: layers.TimeDistributed(layers.Dense(2)),  # a layer without cells
    ],
    ids=["LSTM", "GRU", "SimpleRNN", "Bidirectional", "StackedRNNCells", "no cell"],
)
def test_functional_export_of_a_recurrent_layer_with_dropout_equals_predict(tmp_path, layer):
    x = keras.Input((5, 4), name="x")
    model = keras.Model(x, layer()(x))
    sample = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    expected = model.predict(sample, verbose=0)
    assert export_functional_onnx(model, tmp_path / "x.onnx", sample).largest_difference < 1e-6
    (found,) = session(tmp_path / "x.onnx").run(None, {"x": sample})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_functional_export_of_a_convolutional_lstm_with_dropout_equals_predict(tmp_path):
    x = keras.Input((3, 6, 2), name="x")
    model = keras.Model(x, layers.ConvLSTM1D(2, 3, **RATES)(x))
    sample = np.random.default_rng(0).normal(size=(2, 3, 6, 2)).astype("float32")
    expected = model.predict(sample, verbose=0)
    assert export_functional_onnx(model, tmp_path / "x.onnx", sample).largest_difference < 1e-6
    (found,) = session(tmp_path / "x.onnx").run(None, {"x": sample})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def make_translator(tokenizers, rates):
    source, target = (each.vocabulary_size for each in tokenizers)
    encoder = RNNEncoder(layers.LSTMCell(8, **rates), layers.Embedding(source, 8))
    cell = AttentionRNNCell(layers.LSTMCell(8, **rates), BahdanauAttention(8))
    decoder = RNNDecoder(cell, layers.Embedding(target, 8), head=layers.Dense(target))
    model = GenerationModel(encoder, BeamDecoder(decoder, beam_width=2, max_length=8))
    rng = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(rng.normal(scale=0.7, size=weight.shape))
    return model


@pytest.fixture(scope="module")
def translators(tokenizers):
    return make_translator(tokenizers, RATES), make_translator(tokenizers, {})


@pytest.fixture(scope="module")
def expected(translators, tokenizers):
    """Returns the tokens of a model with the same weights and no dropout."""
    end = translators[1].layers[-1].end_token_id
    batch = pad([[*ids, end] for ids in tokenizers[0].encode(SOURCE)])
    return batch, keras.tree.map_structure(np.asarray, translators[1](batch))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export", "runtime"),
    [(export_onnx, Translator), (export_onnx_steps, StreamingTranslator)],
    ids=["one file", "steps"],
)
def test_onnx_export_of_a_translator_with_dropout_in_its_cells(
    translators, tokenizers, expected, tmp_path, export, runtime
):
    report = export(translators[0], tmp_path / "model", *tokenizers, parity_sentences=SOURCE)
    assert report.best_equal == 1
    found = runtime(tmp_path / "model").translate(SOURCE)
    tokens, lengths = expected[1]["token_ids"][:, 0], expected[1]["lengths"][:, 0]
    best = [row[:length].tolist() for row, length in zip(tokens, lengths, strict=True)]
    assert [each.text for each in found] == tokenizers[1].decode(best)


@pytest.mark.slow
def test_saved_model_of_a_translator_with_dropout_in_its_cells(translators, expected, tmp_path):
    import tensorflow as tf

    assert export_saved_model(translators[0], tmp_path / "saved").best_equal == 1
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    found = loaded.translate_ids(tf.constant(expected[0]))
    np.testing.assert_array_equal(found["token_ids"], expected[1]["token_ids"])


@pytest.mark.slow
def test_text_export_of_a_translator_with_dropout_in_its_cells(translators, tokenizers, tmp_path):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    report = export_onnx_text(
        translators[0], tmp_path / "text", *tokenizers, parity_sentences=SOURCE
    )
    assert report.best_equal == 1
