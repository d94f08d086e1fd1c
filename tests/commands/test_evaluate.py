"""`keras-attn evaluate`: the scores equal those of sacreBLEU, and wrong files are named."""

import json

import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

import sacrebleu

from keras_attn.files import write_lines
from keras_attn_commands import evaluate
from keras_attn_commands.main import main

SOURCES = ["eins", "zwei", "", "drei Hunde laufen schnell"]
REFERENCES = ["one", "two", "", "three dogs are running fast"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A directory with a test set, whose model is replaced by a dictionary."""
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "test.source", SOURCES)
    write_lines(tmp_path / "data" / "test.target", [f"{line} " for line in REFERENCES])
    found = {"eins": "one", "zwei": "too", "drei Hunde laufen schnell": "three dogs are running"}

    def run(model, sources):
        return evaluate.Results([found[source] for source in sources], False, num_cut=1)

    monkeypatch.setattr(evaluate, "_run", run)
    return tmp_path


def test_scores_equal_those_of_sacrebleu(run, capsys):
    out = run / "translated.txt"
    assert main(["evaluate", str(run), "--json", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    scores = json.loads(shown.out)
    assert "Warning: 1 of 3 sources have more tokens than the model reads" in shown.err
    translations = ["one", "too", "three dogs are running"]
    references = [line for line in REFERENCES if line]
    expected = sacrebleu.corpus_bleu(translations, [references]).score
    assert scores["bleu"] == pytest.approx(expected) and scores["sentences"] == 3
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(translations, [references]).score)
    assert scores["equal"] == pytest.approx(1 / 3)  # spaces at the end do not count
    assert "tok:13a" in scores["bleu_signature"] and "nc:6" in scores["chrf_signature"]
    assert out.read_text(encoding="utf-8").splitlines() == translations
    assert main(["evaluate", str(run)]) == 0
    text = capsys.readouterr().out
    assert "eins -> one   (reference: one)" in text and f"BLEU {expected:.2f}" in text


class Result:
    def __init__(self, text):
        self.text, self.truncated = text.upper(), len(text) > 8


def test_chunks_keep_the_order_and_count_what_was_cut(monkeypatch):
    sources = [f"source {number}" for number in (10, 2, 300, 4)]
    lengths, counts = [], []
    monkeypatch.setattr(evaluate, "CHUNK", 3)
    monkeypatch.setattr(evaluate, "report_count", lambda *count: counts.append(count))

    def translate(texts):
        lengths.append([len(text) for text in texts])
        return [Result(text) for text in texts]

    found = evaluate._in_chunks("Translating", sources, translate, lambda each: each.text)
    assert found == {"texts": [source.upper() for source in sources], "num_cut": 2}
    assert lengths == [[8, 8, 9], [10]] and counts == [(3, 4), (4, 4)]


def test_wrong_files_are_one_line(run, capsys):
    file = run / "translator.onnx"
    file.touch()
    write_lines(run / "short.txt", ["one"])
    write_lines(run / "blank.txt", ["", " "])
    for arguments, message in (
        ([run, "--target", run / "short.txt"], "4 lines in"),
        ([run, "--source", run / "absent"], "absent, which does not exist"),
        ([file], "no --source"),
        ([run, "--source", run / "blank.txt", "--target", run / "blank.txt"], "only blank lines"),
    ):
        assert main(["evaluate", *map(str, arguments)]) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
