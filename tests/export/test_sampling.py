"""Sampling with the same seeds gives the same tokens in Keras and in all export formats."""

import random

import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import SamplingDecoder, with_search
from keras_attn.export import (
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._formats.export_onnx_text import _run
from tests.contracts import numpy
from tests.export.small_translator import SOURCE, session
from tests.export.test_language_model import PROMPT_IDS, generator
from tests.slow_cases import all_slow_but

SEEDS = np.array([3, -4, 0, 2**31 - 1], "int32")


@pytest.fixture(scope="module")
def sampler(translator):
    return with_search(translator, SamplingDecoder, num_hypotheses=3, temperature=1.5)


@pytest.fixture(scope="module")
def sampler_file(sampler, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("sampler") / "sampler.onnx"
    export_onnx(sampler, path, *tokenizers, alignments=True, accept_target_prefix=True)
    return path


@pytest.mark.parametrize(
    "settings",
    all_slow_but(
        {"top_k": 9, "top_p": 0.7, "no_repeat_ngram_size": 2, "min_length": 3},
        cases=[
            {},
            {"temperature": 0.6, "top_k": 4},
            {"min_p": 0.1},
            {"top_p": 0.8, "return_token_log_probs": True},
            {"top_k": 9, "top_p": 0.7, "no_repeat_ngram_size": 2, "min_length": 3},
        ],
    ),
    ids=str,
)
def test_the_file_draws_what_keras_draws(tmp_path, settings):
    model = generator(SamplingDecoder, **settings)
    report = export_onnx(model, tmp_path / "model.onnx")
    assert report.is_stochastic and report.best_equal > 0.98
    assert not report.cuda.missing_in_loops  # bitwise operators run before the loops
    opened = session(tmp_path / "model.onnx")
    inputs = {
        "source_ids": PROMPT_IDS,
        "max_length": np.array(9, "int32"),
        "length_penalty": np.array(1.0, "float32"),
        "seeds": SEEDS,
    }
    names = [output.name for output in opened.get_outputs()]
    received = dict(zip(names, opened.run(names, inputs), strict=True))
    _, encoder, search = model.layers
    expected = numpy(search(**encoder(PROMPT_IDS), seeds=SEEDS))
    assert set(received) == set(expected)
    assert len({tuple(row) for row in expected["token_ids"].reshape(8, -1)}) > 4
    for name, value in expected.items():
        if value.dtype == "int32":
            np.testing.assert_array_equal(received[name], value)
        np.testing.assert_allclose(received[name], value, atol=1e-5)


@pytest.mark.slow
def test_a_sentence_is_drawn_alike_whatever_is_beside_it(sampler_file):
    translator = Translator(sampler_file, num_threads=1)
    together = translator.translate(SOURCE, num_hypotheses=3, seed=7)
    apart = translator.translate(SOURCE, num_hypotheses=3, seed=7, batch_size=1)
    for one, other in zip(together, apart, strict=True):
        texts = [each.text for each in one.hypotheses]
        assert texts == [each.text for each in other.hypotheses] and len(set(texts)) > 1
        assert other.alignments.shape == (len(other.token_ids), len(other.source_pieces))
    again = translator.translate([SOURCE[0]] * 9, seed=7)
    assert again[0].text == together[0].text and len({each.text for each in again}) > 5
    led = translator.translate(SOURCE, target_prefix="ein", seed=7)
    assert all(each.text.startswith("ein") for each in led)


@pytest.mark.slow
def test_all_forms_draw_alike(sampler, sampler_file, tokenizers, tmp_path):
    expected = Translator(sampler_file).translate(SOURCE, num_hypotheses=3, seed=5)
    texts = [[each.text for each in one.hypotheses] for one in expected]

    export_onnx_steps(sampler, tmp_path / "steps", *tokenizers)
    streaming = StreamingTranslator(tmp_path / "steps")
    found = streaming.translate(SOURCE, num_hypotheses=3, seed=5)
    assert [[each.text for each in one.hypotheses] for one in found] == texts
    *_, last = streaming.stream(SOURCE[0], seed=5)
    assert last == texts[0][0]
    seeds = random.Random(5).randrange(2**31) + np.arange(4, dtype="int32")

    export_saved_model(sampler, tmp_path / "saved", *tokenizers)
    loaded = tf.saved_model.load(tmp_path / "saved")
    found = loaded.translate_texts(tf.constant(SOURCE), seeds=seeds)
    assert [[each.decode() for each in row] for row in found["text"].numpy()] == texts
    first = loaded.translate_texts(tf.constant(SOURCE[:1]))["text"].numpy()
    zero = loaded.translate_texts(tf.constant(SOURCE[:1]), seeds=[0])["text"].numpy()
    assert (first == zero).all()

    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    export_onnx_text(sampler, tmp_path / "text.onnx", *tokenizers)
    inputs = [value.name for value in onnx.load(tmp_path / "text.onnx").graph.input]
    settings = ["min_length", "num_hypotheses", "temperature", "top_k", "top_p", "min_p"]
    assert inputs == ["text", "max_length", "length_penalty", *settings, "seeds"]
    own, same, default = _run(
        tmp_path / "text.onnx",
        [
            {"text": SOURCE, "seeds": seeds.tolist()},
            {"text": SOURCE, "seeds": seeds[1:2].tolist()},
            {"text": SOURCE[:1]},
        ],
    )
    assert own == texts and same[1] == texts[1]
    assert default == [[each.decode() for each in row] for row in first]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "float16"])
def test_other_precisions_are_compared_where_they_draw_alike(tmp_path, precision):
    model = generator(SamplingDecoder, scale=0.3)
    report = export_onnx(model, tmp_path / "model.onnx", precision=precision)
    assert report.precision.best_equal > 0.5 and 0 < report.precision.mean_difference < 0.05
    assert Translator(tmp_path / "model.onnx").is_stochastic
