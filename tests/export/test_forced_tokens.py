"""Forced tokens of a search in an exported file, and in the runtime."""

import numpy as np
import pytest
from keras_attn_runtime import ModelFileError, Translator

from keras_attn import with_search
from keras_attn.export import export_onnx
from tests import oracles
from tests.export.small_translator import SOURCE, TARGET


@pytest.fixture(scope="module")
def exported(translator, tokenizers, tmp_path_factory):
    """Exports a search with forced tokens; returns the path of the file and the report."""
    forced = {"forced_prefix_ids": [7], "force_end_token": True, "max_length": 12}
    search = with_search(translator, **forced, return_token_log_probs=True)
    path = tmp_path_factory.mktemp("forced") / "model.onnx"
    return path, export_onnx(search, path, *tokenizers, accept_target_prefix=True)


@pytest.mark.slow
def test_forced_tokens_are_exported(exported):
    path, report = exported
    assert report.all_equal > 0.99 and not report.cuda.missing
    for each in Translator(path, num_threads=1).translate(SOURCE, max_length=6):
        assert each.token_ids[0] == 7 and each.token_log_probs[0] == 0
        assert each.ended and len(each.token_ids) < 6


@pytest.mark.slow
def test_scoring_ignores_a_forced_prefix(exported, translator, tokenizers):
    runtime = Translator(exported[0], num_threads=1)
    targets = [each[:5] for each in TARGET]
    sources, ids = tokenizers[0].encode(SOURCE), tokenizers[1].encode(targets)
    scored = runtime.score(SOURCE, targets)
    for each, source_ids, target_ids in zip(scored, sources, ids, strict=True):
        assert each.token_ids == [7, *target_ids]
        encoded = translator.encoder(np.array([[*source_ids, 2]]))
        logits = translator.search.decoder(np.array([[1, 7, *target_ids]]), **encoded)
        log_probs = oracles.log_softmax(np.array(logits)[0, 1:])
        expected = sum(row[id] for row, id in zip(log_probs, [*target_ids, 2], strict=True))
        np.testing.assert_allclose(each.log_prob, expected, rtol=1e-5)


@pytest.mark.slow
def test_scoring_needs_a_search_that_scores_prefixes(translator, tokenizers, tmp_path):
    search = with_search(translator, score_prefix=False, beam_width=1, num_hypotheses=1)
    export_onnx(search, tmp_path / "model.onnx", *tokenizers, accept_target_prefix=True)
    runtime = Translator(tmp_path / "model.onnx", num_threads=1)
    (prefixed,) = runtime.translate(SOURCE[:1], target_prefix="die")
    assert prefixed.text.startswith("die")
    with pytest.raises(ModelFileError, match="score_prefix=False. Export it with"):
        runtime.score(SOURCE[:1], TARGET[:1])
