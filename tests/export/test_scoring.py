"""Scoring of given translations in the runtime."""

import json
import subprocess
import sys

import numpy as np
import pytest
from keras_attn_runtime import InputError, Translator

from keras_attn import with_search
from keras_attn.export import export_onnx
from tests import oracles
from tests.export.small_translator import SOURCE, TARGET

TARGETS = [*TARGET[:3], ""]


@pytest.fixture(scope="module")
def path(translator, tokenizers, tmp_path_factory):
    """Returns a file whose search limit is shorter than `TARGETS`."""
    scorer = with_search(
        translator, beam_width=1, num_hypotheses=1, max_length=5, relative_max_length=None
    )
    path = tmp_path_factory.mktemp("scoring") / "model.onnx"
    export_onnx(scorer, path, *tokenizers, accept_target_prefix=True)
    return path


@pytest.fixture(scope="module")
def runtime(path):
    return Translator(path, num_threads=1)


@pytest.fixture(scope="module")
def scored(runtime):
    return runtime.score(SOURCE, TARGETS, length_penalty=0.5)


@pytest.fixture(scope="module")
def just_too_long(tokenizers):
    """Returns the length of the first target, at which only its end token is cut."""
    return len(tokenizers[1].encode(TARGETS[:1])[0])


def test_scores_as_teacher_forcing_does(scored, translator, tokenizers):
    assert [each.text for each in scored] == TARGETS and all(each.ended for each in scored)
    encoder, search = translator.encoder, translator.search
    for text, target, each in zip(SOURCE, TARGETS, scored, strict=True):
        (source_ids,), (ids,) = (
            tokenizer.encode([side])
            for tokenizer, side in zip(tokenizers, (text, target), strict=True)
        )
        logits = search.decoder(np.array([[1, *ids]]), **encoder(np.array([[*source_ids, 2]])))
        log_probs = oracles.log_softmax(np.array(logits)[0])
        expected = sum(row[token] for row, token in zip(log_probs, [*ids, 2], strict=True))
        np.testing.assert_allclose(each.log_prob, expected, rtol=1e-5)
        np.testing.assert_allclose(each.score, expected / max(1, len(ids)) ** 0.5, rtol=1e-5)


def test_scores_lazily(runtime, scored):
    lazily = runtime.score_iterable(iter(SOURCE), iter(TARGETS), batch_size=1, window=1)
    assert [each.log_prob for each in lazily] == pytest.approx([each.log_prob for each in scored])


def test_what_cannot_be_scored_is_refused(runtime, just_too_long):
    with pytest.raises(InputError, match=r"Sentence 0 .* at most 9 tokens.*Received: 19\."):
        runtime.score(SOURCE, TARGET, max_length=9)
    with pytest.raises(InputError, match=f"at most {just_too_long} tokens"):
        runtime.score(SOURCE[:1], TARGETS[:1], max_length=just_too_long)
    with pytest.raises(InputError, match="Sentence 1 .* a text with tokens"):
        runtime.score([SOURCE[0], ""], TARGETS[:2])


def test_what_cannot_be_scored_is_skipped_on_request(runtime, scored, tokenizers, just_too_long):
    sources, targets = [SOURCE[0], "", "", *SOURCE[1:]], [TARGETS[0], "", "a", *TARGETS[1:]]
    some = runtime.score(sources, targets, skip_unscorable=True, max_length=just_too_long)
    assert some[:3] == [None] * 3  # the first is too long
    fits = [len(ids) < just_too_long for ids in tokenizers[1].encode(TARGETS[1:])]
    assert [each is not None for each in some[3:]] == fits and any(fits)
    for each, same in zip(some[3:], scored[1:], strict=True):
        assert each is None or each.log_prob == pytest.approx(same.log_prob)


@pytest.fixture
def command(path, tmp_path):
    """Scores `TARGETS` for these texts with the command. Returns its output lines."""
    (tmp_path / "targets").write_text("".join(f"{target}\n" for target in TARGETS))

    def run(texts, *options):
        process = subprocess.run(
            [sys.executable, "-m", "keras_attn_runtime", "score", path]
            + [tmp_path / "targets", *options],
            input="\n".join(texts),
            capture_output=True,
            text=True,
        )
        assert (process.returncode, process.stderr) == (0, "")
        return process.stdout.splitlines()

    return run


def test_the_command_writes_a_score_to_a_line(command, scored):
    received = [float(line) for line in command(SOURCE)]
    assert received == pytest.approx([each.log_prob for each in scored], abs=1e-5)


@pytest.mark.parametrize("values", [("text", "truncate", "error"), ("jsonl", "error", "replace")])
def test_every_choice_of_an_option_runs(command, values):
    options = zip(("--format", "--long-lines", "--invalid-utf8"), values, strict=True)
    lines = command(SOURCE, *(part for pair in options for part in pair))
    assert len(lines) == len(SOURCE) and lines[0].startswith("{") == (values[0] == "jsonl")


@pytest.mark.parametrize(("form", "nothing"), [("text", "nan"), ("jsonl", "null")])
def test_the_command_writes_what_it_skips(command, scored, form, nothing):
    texts = ["", *SOURCE[1:]]
    first, second, *_ = command(texts, "--skip-unscorable", "--format", form)
    assert first == nothing
    log_prob = float(second) if form == "text" else json.loads(second)["log_prob"]
    assert log_prob == pytest.approx(scored[1].log_prob, abs=1e-5)
