"""Dead ends of a search return the tokens so far, as at a length limit, in all export formats."""

import numpy as np
import pytest
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import GreedyDecoder, SamplingDecoder, with_search
from keras_attn.export import (
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from tests.export.small_translator import SOURCE

WORDS = [20, 21, 22, 23, 24]
"""The only allowed tokens, each at most once."""

SEARCHES = {
    "beam": {"beam_width": 3, "num_hypotheses": 2},
    "groups": {"beam_width": 4, "num_hypotheses": 3, "num_groups": 2},
    "greedy": {"search_class": GreedyDecoder},
    "sampling": {"search_class": SamplingDecoder, "num_hypotheses": 2},
}


@pytest.fixture
def make_model(translator, tokenizers):
    def make(name="beam", **settings):
        return with_search(
            translator,
            **SEARCHES[name],
            no_repeat_ngram_size=1,
            min_length=12,
            max_length=12,
            suppressed_token_ids=set(range(tokenizers[1].vocabulary_size)) - {*WORDS, 2},
            **settings,
        )

    return make


def assert_dead_ends(translations, prefix=()):
    for translation in translations:
        for hypothesis in translation.hypotheses:
            assert hypothesis.ended is False
            assert hypothesis.token_ids[: len(prefix)] == list(prefix)
            assert sorted(hypothesis.token_ids[len(prefix) :]) == sorted({*WORDS} - {*prefix})
            assert hypothesis.text and hypothesis.log_prob > -1e3
            assert np.isclose(hypothesis.log_prob, sum(hypothesis.token_log_probs), rtol=1e-5)
            assert hypothesis.alignments.shape[0] == len(hypothesis.token_ids)
            assert np.allclose(hypothesis.alignments.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["beam", *(pytest.param(n, marks=pytest.mark.slow) for n in [*SEARCHES][1:])]
)
def test_dead_ends_in_the_runtime_have_text_and_have_not_ended(
    name, make_model, tokenizers, tmp_path
):
    model = make_model(name, return_token_log_probs=True)
    path = tmp_path / "model.onnx"
    export_onnx(model, path, *tokenizers, alignments=True, accept_target_prefix=True)
    translator = Translator(path)
    count = translator.settings.num_hypotheses
    assert_dead_ends(translator.translate(SOURCE, num_hypotheses=count, alignments=True))
    prefix = translator.translate(SOURCE[:1], alignments=True)[0].token_ids[1::-1]
    ids = [[5, 6, 7, 2], [9, 2]]
    assert_dead_ends(translator.translate_ids(ids, prefix, alignments=True), prefix)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beam", "greedy"])
def test_dead_ends_are_streamed(name, make_model, tokenizers, tmp_path):
    model = make_model(name, return_token_log_probs=True)
    export_onnx_steps(model, tmp_path / "steps", *tokenizers, alignments=True)
    translator = StreamingTranslator(tmp_path / "steps")
    translations = translator.translate(SOURCE, alignments=True)
    assert_dead_ends(translations)
    for text, translation in zip(SOURCE, translations, strict=True):
        *_, before, last = translator.stream(text)
        assert before == last == translation.text  # the last step added nothing


@pytest.mark.slow
def test_dead_ends_in_a_saved_model(make_model, tokenizers, tmp_path):
    import tensorflow as tf

    export_saved_model(make_model(), tmp_path / "model", *tokenizers)
    loaded = tf.saved_model.load(str(tmp_path / "model"))  # owns the variables of its functions
    results = loaded.translate_texts(SOURCE)
    token_ids = results["token_ids"].numpy()
    assert (results["lengths"].numpy() == len(WORDS)).all()
    assert (np.sort(token_ids[:, :, : len(WORDS)]) == WORDS).all()
    assert not token_ids[:, :, len(WORDS) :].any()
    assert all(text for text in results["text"].numpy().flat)


@pytest.mark.slow
def test_dead_ends_in_a_file_of_strings(make_model, tokenizers, tmp_path):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    from keras_attn.export._formats.export_onnx_text import _run

    export_onnx_text(make_model(), tmp_path / "text.onnx", *tokenizers)
    export_onnx(make_model(), tmp_path / "ids.onnx", *tokenizers)
    ((*texts,),) = _run(tmp_path / "text.onnx", [{"text": SOURCE}])
    translations = Translator(tmp_path / "ids.onnx").translate(SOURCE, num_hypotheses=2)
    assert texts == [[each.text for each in one.hypotheses] for one in translations]
    assert all(text for row in texts for text in row)
