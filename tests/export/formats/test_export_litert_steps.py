import pickle

import numpy as np
import pytest
from keras_attn_runtime import (
    Cancelled,
    CancelToken,
    ModelFileError,
    SteppedModel,
    StreamingTranslator,
    Translator,
)
from keras_attn_runtime._file_info.describe_file import describe_file

from keras_attn import BeamDecoder, GenerationModel, SamplingDecoder, transformer_seq2seq
from keras_attn.export import export_litert, export_litert_steps
from tests.contracts import randomize
from tests.export.small_translator import SOURCE

pytest.importorskip("ai_edge_litert", reason="needs keras-attn[litert]")

SENTENCES = [[5, 6, 7, 2], [9, 2], [3, 4, 5, 6, 7, 8, 9, 10, 2]]


@pytest.fixture(scope="module")
def paths(translator, tokenizers, tmp_path_factory):
    """Returns the paths of the file of steps and of the file with the whole search."""
    directory = tmp_path_factory.mktemp("litert")
    paths = directory / "steps.tflite", directory / "whole.tflite"
    options = {"accept_target_prefix": True, "accept_constraints": True}
    options["parity_sentences"] = SOURCE
    report = export_litert_steps(translator, paths[0], *tokenizers, **options)
    assert report.sentences >= 200 and report.all_equal == 1 and report.cut > 0
    export_litert(translator, paths[1], *tokenizers, **options)
    return paths


def test_export_litert_steps_does_not_warn_about_input_names(translator, tmp_path, caplog):
    with caplog.at_level("WARNING"):
        export_litert_steps(translator, tmp_path / "steps.tflite")
    assert "parameter name" not in caplog.text


@pytest.fixture(scope="module")
def streaming(paths):
    return StreamingTranslator(paths[0], num_threads=1)


def transformer(search_class, **options):
    encoder, decoder = transformer_seq2seq(
        20, 20, num_layers=1, num_heads=2, embedding_dim=8, intermediate_dim=16, seed=1
    )
    model = GenerationModel(encoder, search_class(decoder, **options))
    randomize(model, scale=0.7, seed=3)
    return model


def test_litert_steps_translate_like_the_whole_search(paths, streaming):
    whole = Translator(paths[1], num_threads=1)
    prefixes = ["die", "", "zwei v", "ein"]
    for arguments in ((SOURCE,), (SOURCE, prefixes)):
        expected = whole.translate(*arguments, num_hypotheses=2)
        actual = streaming.translate(*arguments, num_hypotheses=2)
        assert [each.hypotheses for each in actual] == [each.hypotheses for each in expected]


def test_litert_steps_require_phrases_like_the_whole_search(paths, streaming):
    whole = Translator(paths[1], num_threads=1)
    phrases = [["hund"], ["katze", ["schläft", "frisst"]], None, [["zwei vögel", "baum"]]]
    for in_order in (False, True):
        options = {"constraints": phrases, "constraints_in_order": in_order}
        found = streaming.translate(SOURCE, **options)
        assert found == whole.translate(SOURCE, **options)
        assert [result.constraints_met for result in found if result.ended][0][0]
    assert [*streaming.stream(SOURCE[0], constraints=["hund"])][-1] == found[0].text


@pytest.mark.parametrize("options", [{}, {"max_length": 4}, {"target_prefix": "die"}])
def test_litert_steps_stream_a_translation(streaming, options):
    prefix = [options["target_prefix"]] if "target_prefix" in options else []
    limits = {name: value for name, value in options.items() if name != "target_prefix"}
    for text in SOURCE:
        (translation,) = streaming.translate([text], *prefix, **limits)
        shown = list(streaming.stream(text, **options))
        assert shown[-1] == translation.text
        assert len(shown) >= len(translation.token_ids) > 1
    assert list(streaming.stream(" ")) == list(streaming.stream("a dog", max_length=0)) == [""]


def test_litert_steps_end_after_a_stop_text(streaming, monkeypatch):
    run, taken = streaming._stepped_model._parts[1]._runner, []
    counted = lambda **feeds: taken.append(1) or run(**feeds)  # noqa: E731
    monkeypatch.setattr(streaming._stepped_model._parts[1], "_runner", counted)
    whole = streaming.translate(SOURCE)
    num_steps = len(taken)
    for text, result in zip(SOURCE, whole, strict=True):
        stop = result.text[2:4]
        (stopped,) = streaming.translate([text], stop_texts=stop)
        assert stopped.ended and stop not in stopped.text
        assert stopped.stop_text == stop or len(stopped.text) < len(result.text)
        assert [*streaming.stream(text, stop_texts=stop)][-1] == result.text.split(stop)[0]
    assert len(taken) < 2.5 * num_steps


def test_litert_stream_is_cancelled_between_two_steps(streaming, monkeypatch):
    steps = streaming._stepped_model._parts[1]
    runs, run = [], steps._runner
    monkeypatch.setattr(steps, "_runner", lambda **feeds: runs.append(1) or run(**feeds))
    token = CancelToken()
    stream = streaming.stream("a dog eats the bone", cancel_token=token)
    next(stream), next(stream)
    token.cancel()
    with pytest.raises(Cancelled):
        next(stream)
    assert len(runs) == 2
    assert list(streaming.stream("a dog"))[-1] == streaming(["a dog"])[0]


def test_litert_streams_of_one_interpreter_take_turns(streaming):
    expected = [list(streaming.stream(text)) for text in SOURCE[:2]]
    streams = [streaming.stream(text) for text in SOURCE[:2]]
    found = [[], []]
    for _ in range(max(map(len, expected))):
        for texts, stream in zip(found, streams, strict=True):
            texts.extend(text for text in [next(stream, None)] if text is not None)
    assert found == expected


def test_litert_steps_fill_a_fixed_batch(tmp_path):
    model = transformer(BeamDecoder, beam_width=3, num_hypotheses=3, max_length=10)
    path = tmp_path / "steps.tflite"
    export_litert_steps(model, path, batch_size=4, alignments=True)
    expected = SteppedModel(path).run([SENTENCES[0]], 10, 1.0)
    stepped = SteppedModel(path, num_sessions=2)
    actual = stepped.run(SENTENCES, 10, 1.0)
    length = expected["token_ids"].shape[2]
    np.testing.assert_array_equal(actual["token_ids"][:1, :, :length], expected["token_ids"])
    assert {len(each) for each in actual.values()} == {3}
    assert actual["alignments"].shape[3] == 9
    search = stepped.start(SENTENCES, 10, 1.0)
    for step, partial in enumerate(search, start=1):
        assert partial.shape == (3, step) and search.values["step"].numpy() == step
        assert search.values["beams/log_probs"].numpy().shape == (4, 3)
    assert search.done
    with pytest.raises(ModelFileError, match="LiteRT failed on 5 .*at most 4 rows"):
        stepped.start([[5, 2]] * 5, 10, 1.0)


@pytest.mark.slow
def test_litert_steps_sample_with_seeds(tmp_path):
    options = {"num_hypotheses": 2, "max_length": 8, "top_k": 9, "return_top_tokens": 3}
    options["return_token_log_probs"] = True
    model = transformer(SamplingDecoder, **options)
    for export, name in ((export_litert, "m.tflite"), (export_litert_steps, "steps.tflite")):
        export(model, tmp_path / name)
    whole = Translator(tmp_path / "m.tflite").translate_ids(SENTENCES, seed=7)
    stepped = StreamingTranslator(tmp_path / "steps.tflite").translate_ids(SENTENCES, seed=7)
    assert [each.hypotheses for each in stepped] == [each.hypotheses for each in whole]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_litert_steps_of_a_precision_are_compared(tmp_path, precision):
    model = transformer(BeamDecoder, beam_width=2, max_length=6)
    report = export_litert_steps(model, tmp_path / "steps.tflite", precision=precision)
    assert report.precision.precision == precision


def test_litert_steps_pickle(paths, streaming):
    restored = pickle.loads(pickle.dumps(streaming))
    assert type(restored) is StreamingTranslator
    assert list(restored.stream("a dog")) == list(streaming.stream("a dog"))


def test_litert_steps_and_whole_search_are_told_apart(paths):
    with pytest.raises(ModelFileError, match=r"signatures \['serving_default'\].*with Streaming"):
        Translator(paths[0])
    with pytest.raises(ModelFileError, match=r"\['start', 'step', 'finish'\].*Use Translator"):
        StreamingTranslator(paths[1])
    found = describe_file(paths[0])
    assert set(found["signatures"]) == {"start", "step", "finish"}
