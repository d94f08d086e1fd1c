"""Languages of the tokenizers in an exported file and in a run directory."""

import subprocess
import sys

import numpy as np
import pytest
from keras_attn_runtime import Translator

from keras_attn.export import export_onnx, export_onnx_text, export_saved_model
from keras_attn.text import Language, SentencePieceTokenizer
from keras_attn.training import RunDirectory
from tests import oracles
from tests.export.small_translator import SOURCE, TARGET

SOURCES = {"en": Language(source_start=[8]), "de": Language(source_end=[9])}
TARGETS = {"fr": Language(target_start=[7], source_tag=[10]), "es": Language(target_start=[6])}


@pytest.fixture(scope="module")
def with_languages(tokenizers):
    return (
        SentencePieceTokenizer(tokenizers[0].model, languages=SOURCES),
        SentencePieceTokenizer(tokenizers[1].model, languages=TARGETS),
    )


@pytest.fixture(scope="module")
def path(translator, with_languages, tmp_path_factory):
    path = tmp_path_factory.mktemp("languages") / "model.onnx"
    export_onnx(translator, path, *with_languages, parity_sentences=SOURCE)
    return path


@pytest.mark.slow
def test_languages_select_ids_of_source_and_target(path, translator, tokenizers):
    runtime = Translator(path, num_threads=1)
    for languages, start, end, first in (
        (("en", "fr"), [10, 8], [2], 7),
        (("de", "es"), [], [2, 9], 6),
    ):
        source, target = languages
        found = runtime.translate(SOURCE, source_language=source, target_language=target)
        for each, ids in zip(found, tokenizers[0].encode(SOURCE), strict=True):
            encoded = translator.encoder(np.array([[*start, *ids, *end]]))
            expected = translator.search(**encoded, prefix_ids=np.array([[first]]))
            length = int(expected["lengths"][0, 0])
            assert each.token_ids == np.array(expected["token_ids"])[0, 0, :length].tolist()


@pytest.mark.slow
def test_scores_are_those_of_the_languages(path, translator, tokenizers):
    languages = {"source_language": "en", "target_language": "es"}
    targets = [each[:4] for each in TARGET]
    scored = Translator(path, num_threads=1).score(SOURCE, targets, **languages)
    sources, ids = tokenizers[0].encode(SOURCE), tokenizers[1].encode(targets)
    for each, source_ids, target_ids in zip(scored, sources, ids, strict=True):
        encoded = translator.encoder(np.array([[8, *source_ids, 2]]))
        logits = translator.search.decoder(np.array([[1, 6, *target_ids]]), **encoded)
        log_probs = oracles.log_softmax(np.array(logits)[0])
        expected = sum(row[id] for row, id in zip(log_probs, [6, *target_ids, 2], strict=True))
        np.testing.assert_allclose(each.log_prob, expected, rtol=1e-5)


@pytest.mark.slow
def test_command_translates_to_a_language(path):
    command = [sys.executable, "-m", "keras_attn_runtime", "translate", str(path)]
    options = ["--from", "en", "--to", "fr", "--threads", "1"]
    lines = "\n".join(SOURCE) + "\n"
    done = subprocess.run([*command, *options], input=lines, capture_output=True, text=True)
    expected = Translator(path, num_threads=1)(SOURCE, source_language="en", target_language="fr")
    assert done.stdout.splitlines() == expected
    done = subprocess.run([*command, "--from", "en"], input=lines, capture_output=True, text=True)
    assert done.returncode == 1 and "target_language" in done.stderr


@pytest.mark.parametrize("function", [export_onnx_text, export_saved_model])
def test_files_of_strings_refuse_languages(function, translator, with_languages, tmp_path):
    if function is export_onnx_text:
        pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    with pytest.raises(ValueError, match=r"cannot select a language. Received: languages \['de'"):
        function(translator, tmp_path / "model", *with_languages)


def test_run_directory_keeps_languages(with_languages, tokenizers, tmp_path):
    run = RunDirectory.create(tmp_path / "run", "generation", with_languages[0], tokenizers[1])
    found = {name: each.entries() for name, each in run.source_tokenizer.languages.items()}
    assert found == {name: each.entries() for name, each in SOURCES.items()}
    assert run.target_tokenizer.languages == {}
