"""A decoder fused with a language model is exported with its search, like any other decoder."""

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import (
    BeamDecoder,
    CausalLanguageModel,
    FusedDecoder,
    GenerationModel,
    RotaryPositions,
    TransformerDecoderBlock,
)
from keras_attn.export import (
    export_litert,
    export_onnx,
    export_onnx_steps,
    export_saved_model,
)
from tests import oracles
from tests.contracts import assert_close, numpy, randomize
from tests.export.small_graphs import assert_no_weights_in_loops
from tests.export.small_translator import SOURCE

WEIGHT = 0.4


@pytest.fixture(scope="module")
def language_model(tokenizers):
    block = TransformerDecoderBlock(2, 16, cross_attention=False, rotary=RotaryPositions())
    embedding = keras.layers.ReversibleEmbedding(tokenizers[1].vocabulary_size, 8)
    return CausalLanguageModel(block, embedding, num_layers=2)


@pytest.fixture(scope="module")
def fused(translator, language_model):
    decoder = FusedDecoder(translator.decoder, language_model, WEIGHT)
    search = BeamDecoder(decoder, beam_width=3, num_hypotheses=2, max_length=30)
    model = GenerationModel(translator.encoder, search)
    randomize(language_model, scale=0.7, seed=5)
    return model


@pytest.fixture(scope="module")
def exported_fusion(fused, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("fusion") / "fusion.onnx"
    return path, export_onnx(fused, path, *tokenizers, parity_sentences=SOURCE)


def test_the_file_translates_as_keras_does(fused, exported_fusion, tokenizers):
    path, report = exported_fusion
    assert report.best_equal == report.all_equal == 1.0 and not report.cuda.missing
    assert_no_weights_in_loops(onnx.load(path))
    expected = fused.generate(SOURCE, *tokenizers)
    assert [each.text for each in Translator(path).translate(SOURCE)] == expected


def test_scores_in_the_file_are_those_of_both_models(
    fused, exported_fusion, translator, language_model, tokenizers
):
    found = Translator(exported_fusion[0]).translate(SOURCE, num_hypotheses=2)
    for each, ids in zip(found, tokenizers[0].encode(SOURCE), strict=True):
        encoded = translator.encoder(np.array([[*ids, 2]], "int32"))
        for hypothesis in each.hypotheses:
            tokens = [*hypothesis.token_ids, *[2] * hypothesis.ended]
            before = np.array([[1, *tokens[:-1]]], "int32")
            both = [
                oracles.log_softmax(numpy(logits))[0]
                for logits in (translator.decoder(before, **encoded), language_model(before))
            ]
            scores = (both[0] + WEIGHT * both[1])[np.arange(len(tokens)), tokens]
            assert_close(hypothesis.log_prob, np.float32(scores.sum()), 1e-4)


@pytest.mark.slow
def test_all_forms_translate_alike(fused, exported_fusion, tokenizers, tmp_path):
    expected = [each.text for each in Translator(exported_fusion[0]).translate(SOURCE)]
    assert len(set(expected)) > 1
    export_onnx_steps(fused, tmp_path / "steps", *tokenizers)
    streamed = StreamingTranslator(tmp_path / "steps")
    assert [list(streamed.stream(text))[-1] for text in SOURCE] == expected
    export_saved_model(fused, tmp_path / "saved", *tokenizers)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    texts = loaded.translate_texts(tf.constant(SOURCE))["text"][:, 0].numpy()
    assert [text.decode() for text in texts] == expected
    fused.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    assert reloaded.generate(SOURCE, *tokenizers) == expected


@pytest.mark.slow
def test_litert_file_equals_keras(fused, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="needs keras-attn[litert]")
    report = export_litert(fused, tmp_path / "model.tflite", accept_target_prefix=True)
    assert report.sentences >= 200 and report.all_tied == 1.0
    assert report.largest_difference < 1e-3
