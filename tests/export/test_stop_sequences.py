"""Stop sequences and stop texts in files of each format, in the runtime and in `generate`."""

import numpy as np
import pytest
import tensorflow as tf
from keras_attn_runtime import StreamingTranslator, Translator
from keras_attn_runtime._models.stepped_search import SteppedSearch

from keras_attn import GreedyDecoder, with_search
from keras_attn.export import (
    export_litert,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._formats.export_onnx_text import _run
from tests.export.small_translator import SOURCE


def stops_of(model, tokenizers):
    """Sequences with different lengths that occur in the middle of some results."""
    results = model.generate(SOURCE, *tokenizers, return_details=True)
    rows = [each.token_ids for each in results if len(each.token_ids) > 4]
    assert len(rows) > 1
    return [rows[0][2:4], rows[1][1:2]]


@pytest.fixture(scope="module")
def stopped(translator, tokenizers):
    search = with_search(translator, max_length=12, return_token_log_probs=True)
    return with_search(search, stop_sequences=stops_of(search, tokenizers))


def values(results):
    return [(each.text, each.ended, len(each.token_log_probs)) for each in results]


@pytest.mark.slow
def test_a_file_finds_the_results_of_keras(stopped, tokenizers, tmp_path):
    results = stopped.generate(SOURCE, *tokenizers, return_details=True)
    sequences = stopped.search.stop_sequences
    without = with_search(stopped, stop_sequences=[]).generate(SOURCE, *tokenizers)
    assert [each.text for each in results] != without
    options = {"accept_constraints": True, "accept_target_prefix": True}
    export_onnx(stopped, tmp_path / "model.onnx", *tokenizers, **options)
    runtime = Translator(tmp_path / "model.onnx")
    assert runtime.settings.format == 3
    assert values(runtime.translate(SOURCE)) == values(results)
    phrase = tokenizers[1].encode(["hund"])[0]
    assert not any(phrase == each[: len(phrase)] for each in sequences)
    (required,) = runtime.translate(SOURCE[:1], constraints=[["hund"]])
    assert required.constraints_met == [True] or not required.ended
    prefix = tokenizers[1].decode([sequences[0]])[0]
    (prefixed,) = runtime.translate(SOURCE[:1], target_prefix=prefix)
    assert prefixed.text.startswith(prefix)


@pytest.mark.slow
def test_each_format_finds_the_results_of_keras(stopped, tokenizers, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="needs keras-attn[litert]")
    expected = values(stopped.generate(SOURCE, *tokenizers, return_details=True))
    export_onnx_steps(stopped, tmp_path / "steps", *tokenizers)
    export_litert(stopped, tmp_path / "model.tflite", *tokenizers)
    for path in ("steps", "model.tflite"):
        runtime = (StreamingTranslator if path == "steps" else Translator)(tmp_path / path)
        assert values(runtime.translate(SOURCE)) == expected
    texts = [text for text, *_ in expected]
    export_onnx_text(stopped, tmp_path / "text.onnx", *tokenizers)
    (found,) = _run(tmp_path / "text.onnx", [{"text": SOURCE}])
    assert [each[0] for each in found] == texts
    export_saved_model(stopped, tmp_path / "saved", *tokenizers)
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    found = loaded.translate_texts(SOURCE)["text"].numpy()[:, 0]
    assert [each.decode() for each in found] == texts


@pytest.fixture(scope="module")
def steps(translator, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("stops") / "steps"
    greedy = with_search(translator, GreedyDecoder, max_length=12, min_length=4)
    rows = [each.token_ids for each in greedy.generate(SOURCE, *tokenizers, return_details=True)]
    stopped = with_search(greedy, stop_sequences=[rows[0][4:6], [13, 26, 8]])
    options = {"alignments": True, "accept_token_bias": True}
    export_onnx_steps(stopped, path, *tokenizers, accept_target_prefix=True, **options)
    results = stopped.generate(SOURCE, *tokenizers, return_details=True)
    assert results[0].token_ids == rows[0][:4] and results[0].ended
    assert [each.token_ids for each in results[1:]] == rows[1:]
    return StreamingTranslator(path), [each.text for each in results], stopped


def test_a_stream_holds_back_a_stop_sequence(steps):
    runtime, texts, _ = steps
    for source, text in zip(SOURCE, texts, strict=True):
        streamed = [*runtime.stream(source)]
        assert streamed[-1] == text
        assert all(text.startswith(each) for each in streamed)


def test_a_stream_ends_before_a_stop_text(steps):
    runtime, texts, _ = steps
    assert runtime.settings.format == 3
    num_stopped = 0
    for source, text in zip(SOURCE, texts, strict=True):
        whole = [*runtime.stream(source)]
        for begin, end in ((3, 6), (2, 3), (1, len(text)), (len(text) - 3, len(text))):
            stops = [text[begin:end], text[end - 1 : end + 1] + "#"]
            (result,) = runtime.translate([source], stop_texts=stops)
            streamed = [*runtime.stream(source, stop_texts=stops)]
            assert streamed[-1] == result.text == text[: text.index(stops[0])]
            assert all(result.text.startswith(each) for each in streamed)
            assert result.stop_text == stops[0] and result.ended
            num_stopped += len(streamed) < len(whole)
        never = [*runtime.stream(source, stop_texts=[text + "#"])]
        assert never[-1] == text and all(text.startswith(each) for each in never)
    assert num_stopped > 8


def test_a_stop_text_in_the_prefix_does_not_count(steps):
    runtime, *_ = steps
    prefix = "ka"
    (whole,) = runtime.translate(SOURCE[1:2], target_prefix=prefix)
    after = whole.text.removeprefix(prefix)
    assert len(after) > 4, whole.text
    for stop_texts, expected in (("ka", whole.text), (["a", after[1:3]], None)):
        options = {"target_prefix": prefix, "stop_texts": stop_texts}
        (result,) = runtime.translate(SOURCE[1:2], **options)
        assert [*runtime.stream(SOURCE[1], **options)][-1] == result.text
        assert result.text == (expected or prefix + after.split(after[1:3])[0])


def num_steps(token_ids, stops, tokenizer):
    """Returns the number of the first tokens whose text contains a stop text."""
    texts = [tokenizer.decode([token_ids[:count]])[0] for count in range(len(token_ids) + 1)]
    return next(i for i, text in enumerate(texts) if any(stop in text for stop in stops))


def test_translate_ends_after_a_stop_text(steps, tokenizers, monkeypatch):
    runtime, texts, model = steps
    taken, take = [], SteppedSearch.__next__
    monkeypatch.setattr(SteppedSearch, "__next__", lambda self: taken.append(1) or take(self))
    stops = [text[2:5] for text in texts]
    expected = model.generate(SOURCE, *tokenizers, stop_texts=stops, return_details=True)
    found = runtime.translate(SOURCE, stop_texts=stops)
    for result, other in zip(found, expected, strict=True):
        names = ("text", "token_ids", "pieces", "ended", "stop_text")
        assert [getattr(result, n) for n in names] == [getattr(other, n) for n in names]
        assert result.stop_text is not None
    whole = [each.token_ids for each in model.generate(SOURCE, *tokenizers, return_details=True)]
    most = max(num_steps(row, stops, tokenizers[1]) for row in whole)
    assert len(taken) - 1 == most + 1 < max(map(len, whole))  # the last call ends the loop


UNKNOWN = ["the Zürich dog 2024", "a Łódź"]


@pytest.mark.parametrize("stop_texts", [None, "k"])
def test_a_stream_ends_with_source_words(steps, stop_texts):
    runtime, _, model = steps
    options = {"token_bias": {3: 3.0}, "stop_texts": stop_texts}
    for text in UNKNOWN:
        (plain,) = runtime.translate([text], **options)
        (result,) = runtime.translate([text], replace_unknown=True, **options)
        *_, last = runtime.stream(text, replace_unknown=True, **options)
        assert last == result.text != plain.text
        assert any(word in last for word in text.split())
    with pytest.raises(ValueError, match="replace_unknown"):
        runtime.stream(text, replace_unknown=2)


def test_generate_and_the_runtime_cut_alike(translator, tokenizers, exported):
    runtime = Translator(exported[0])
    texts = [each.text for each in runtime.translate(SOURCE)]
    stops = [texts[0][2:5], texts[1][3:5], texts[2][1:3]]
    options = {"stop_texts": stops, "num_hypotheses": 2}
    found = runtime.translate(SOURCE, **options)
    expected = translator.generate(SOURCE, *tokenizers, return_details=True, **options)
    assert sum(each.stop_text is not None for each in found) > 2
    for result, other in zip(found, expected, strict=True):
        for one, two in zip(result.hypotheses, other.hypotheses, strict=True):
            names = ("text", "token_ids", "pieces", "ended", "stop_text")
            assert [getattr(one, n) for n in names] == [getattr(two, n) for n in names]
            np.testing.assert_allclose(one.score, two.score, rtol=1e-4)
            if one.stop_text is not None:
                assert one.text.startswith(tokenizers[1].decode([one.token_ids])[0])
                assert not any(each in one.text for each in stops)
