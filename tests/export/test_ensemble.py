"""Ensembles are exported to one file, whose translations equal those of Keras."""

import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import BeamDecoder, GenerationModel, ensemble_model, transformer_seq2seq
from keras_attn.export import export_onnx, export_onnx_steps, export_saved_model
from tests.contracts import assert_close, numpy, randomize
from tests.export.small_graphs import assert_no_weights_in_loops, loop_bodies
from tests.export.small_translator import SOURCE, make_translator


@pytest.fixture(scope="module")
def ensemble(translator, tokenizers):
    """Returns an ensemble of an RNN and a Transformer."""
    sizes = [each.vocabulary_size for each in tokenizers]
    encoder, decoder = transformer_seq2seq(
        *sizes,
        num_layers=1,
        num_heads=2,
        embedding_dim=8,
        intermediate_dim=16,
        share_embeddings=False,
    )
    other = GenerationModel(
        encoder, BeamDecoder(decoder, beam_width=3, num_hypotheses=2, max_length=30)
    )
    randomize(other, scale=0.7, seed=3)
    return ensemble_model([translator, other])


@pytest.fixture(scope="module")
def exported_ensemble(ensemble, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("ensemble") / "ensemble.onnx"
    return path, export_onnx(ensemble, path, *tokenizers, parity_sentences=SOURCE)


def test_the_file_translates_as_keras_does(ensemble, exported_ensemble, tokenizers):
    path, report = exported_ensemble
    assert report.best_equal == report.all_equal == 1.0 and not report.cuda.missing
    found = Translator(path).translate(SOURCE)
    source, target = tokenizers
    for each, ids in zip(found, source.encode(SOURCE), strict=True):
        expected = numpy(ensemble(np.array([[*ids, 2]], "int32")))
        length = expected["lengths"][0, 0]
        assert each.text == target.decode([expected["token_ids"][0, 0, :length]])[0]
        assert_close(each.score, expected["scores"][0, 0])


def test_no_model_s_weights_go_through_the_loop(ensemble, exported_ensemble):
    exported = onnx.load(exported_ensemble[0])
    assert_no_weights_in_loops(exported)
    step = loop_bodies(exported)[-1]
    products = [node.op_type for node in step.node].count("MatMul")
    assert products >= 11 + 4  # 11 of a Transformer layer and its logits, 4 of the RNN


@pytest.mark.slow
def test_all_forms_translate_alike(ensemble, exported_ensemble, tokenizers, tmp_path):
    expected = [each.text for each in Translator(exported_ensemble[0]).translate(SOURCE)]
    assert len(set(expected)) > 1
    export_onnx_steps(ensemble, tmp_path / "steps", *tokenizers)
    streamed = StreamingTranslator(tmp_path / "steps")
    assert [list(streamed.stream(text))[-1] for text in SOURCE] == expected
    export_saved_model(ensemble, tmp_path / "saved", *tokenizers)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    texts = loaded.translate_texts(tf.constant(SOURCE))["text"][:, 0].numpy()
    assert [text.decode() for text in texts] == expected


@pytest.mark.slow
def test_a_prefix_is_for_all_models(tmp_path, tokenizers):
    sizes = [each.vocabulary_size for each in tokenizers]
    models = [make_translator(cell=cell, vocabulary_sizes=sizes) for cell in ("lstm", "gru")]
    path = tmp_path / "ensemble.onnx"
    ensemble = ensemble_model(models)
    export_onnx(ensemble, path, *tokenizers, accept_target_prefix=True)
    encoder, search = ensemble.encoder, ensemble.search
    (prefix_ids,) = tokenizers[1].encode(["ein"])
    for each, ids in zip(
        Translator(path).translate(SOURCE, target_prefix="ein"),
        tokenizers[0].encode(SOURCE),
        strict=True,
    ):
        encoded = encoder(np.array([[*ids, 2]], "int32"))
        expected = numpy(search(**encoded, prefix_ids=np.array([prefix_ids], "int32")))
        length = expected["lengths"][0, 0]
        assert each.token_ids == expected["token_ids"][0, 0, :length].tolist()
        assert each.text.startswith("ein")
