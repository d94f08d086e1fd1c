"""Alternatives at a position in files of all formats, in the runtime and in `generate`."""

import numpy as np
import pytest
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import AlternativesDecoder, with_search
from keras_attn.export import (
    export_litert,
    export_litert_steps,
    export_onnx,
    export_onnx_steps,
    export_saved_model,
)
from tests.contracts import assert_close, numpy
from tests.export.small_translator import SOURCE
from tests.slow_cases import all_slow_but

PREFIXES = ["ein", "", "die ", "zwei v"]
IDS = np.array([[5, 9, 4, 2], [8, 6, 2, 0], [7, 2, 0, 0]], "int32")
PREFIX_IDS = np.array([[5, 0], [8, 9], [0, 0]], "int32")


@pytest.fixture(scope="module")
def model(translator):
    return with_search(
        translator,
        AlternativesDecoder,
        num_hypotheses=3,
        max_length=12,
        return_token_log_probs=True,
        return_top_tokens=4,
    )


def export(model, tokenizers, folder, exporter, name, **options):
    report = exporter(model, folder / name, *tokenizers, accept_target_prefix=True, **options)
    assert report.each_equal == 1
    return folder / name


def assert_top_tokens(received, expected):
    """Compares the `TopToken`s of the runtime with those of `generate`."""
    for one, other in zip(received, expected, strict=True):
        assert [token[:2] for token in one] == [token[:2] for token in other]
        assert len(one) == 4 and all(isinstance(token.piece, str) for token in one)
        log_probs = [[token.log_prob for token in each] for each in (one, other)]
        assert_close(*map(np.array, log_probs), 1e-4)


def test_file_and_generate_agree(model, tokenizers, tmp_path):
    translator = Translator(export(model, tokenizers, tmp_path, export_onnx, "model.onnx"))
    options = {"target_prefix": PREFIXES, "return_details": True}
    for count in (1, 4):
        expected = model.generate(SOURCE, *tokenizers, num_hypotheses=count, **options)
        for result, prefix in zip(expected, PREFIXES, strict=True):
            length = len(tokenizers[1].encode([prefix])[0])
            nexts = [each.token_log_probs[length] for each in result.hypotheses]
            assert nexts == sorted(nexts, reverse=True) and len(nexts) == count
        results = translator.translate(SOURCE, PREFIXES, num_hypotheses=count)
        for one, other in zip(results, expected, strict=True):
            for received, wanted in zip(one.hypotheses, other.hypotheses, strict=True):
                assert received.token_ids == wanted.token_ids
                assert_close(received.token_log_probs, wanted.token_log_probs, 1e-4)
                assert_top_tokens(received.top_tokens, wanted.top_tokens)
    size = tokenizers[1].vocabulary_size
    (result,) = translator.translate(SOURCE[:1], num_hypotheses=size + 5)
    firsts = {tuple(each.token_ids[:1]) for each in result.hypotheses}
    assert len(firsts) == len(result.hypotheses) == size - 2  # not padding and the start token
    with pytest.raises(ValueError, match="num_hypotheses of at most 4096, for one call"):
        translator.translate(SOURCE, num_hypotheses=5000)


@pytest.mark.slow
def test_streaming_shows_the_most_probable_alternative(model, tokenizers, tmp_path):
    translator = StreamingTranslator(
        export(model, tokenizers, tmp_path, export_onnx_steps, "steps")
    )
    results = translator.translate(SOURCE[:1], PREFIXES[:1], num_hypotheses=2)
    *_, last = translator.stream(SOURCE[0], target_prefix=PREFIXES[0])
    assert last == results[0].text == results[0].hypotheses[0].text


@pytest.mark.parametrize(
    "name", all_slow_but("model.tflite", cases=["model.tflite", "steps.tflite", "saved"])
)
def test_other_formats(model, tokenizers, tmp_path, name):
    import tensorflow as tf

    exporters = {
        "saved": export_saved_model,
        "model.tflite": export_litert,
        "steps.tflite": export_litert_steps,
    }
    path = export(model, tokenizers, tmp_path, exporters[name], name)
    encoded = model.encoder(IDS)
    expected = numpy(model.search(**encoded, prefix_ids=PREFIX_IDS, max_length=9))
    if name == "saved":
        loaded = tf.saved_model.load(path)
        results = numpy(loaded.translate_ids(IDS, prefix_ids=PREFIX_IDS, max_length=tf.constant(9)))
        assert results["token_ids"].tolist() == expected["token_ids"].tolist()
        for each in ("token_log_probs", "top_token_ids", "top_token_log_probs"):
            assert_close(results[each], expected[each], 1e-4)
        return
    opened = (StreamingTranslator if "steps" in name else Translator)(path)
    rows = [row[row > 0] for row in PREFIX_IDS]
    found = opened.translate_ids(IDS, rows, num_hypotheses=3, max_length=9)
    for row, result in enumerate(found):
        for rank, each in enumerate(result.hypotheses):
            length = expected["lengths"][row, rank]
            assert each.token_ids == expected["token_ids"][row, rank, :length].tolist()
            assert_close(each.log_prob, expected["log_probs"][row, rank], 1e-4)
            top_tokens = [[token[::2] for token in tokens] for tokens in each.top_tokens]
            ids, values = (
                expected[f"top_token_{name}"][row, rank] for name in ("ids", "log_probs")
            )
            wanted = np.stack([ids, values], axis=-1)[: len(top_tokens)]
            assert_close(np.array(top_tokens), wanted, 1e-4)
