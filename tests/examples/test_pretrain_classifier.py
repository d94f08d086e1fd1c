"""Parts of the example, and a short run whose model the command exports."""

from types import SimpleNamespace

import numpy as np
import pretrain_classifier
import pytest

import keras_attn
from tests.examples.scripts import EXAMPLES, python

SCRIPT = EXAMPLES / "pretrain_classifier.py"
SETTINGS = {"dim": 16, "dropout": 0.1}
ROWS = [list(range(5, 5 + length)) for length in range(1, 30)]


@pytest.mark.slow
def test_the_command_exports_a_short_run(tmp_path):
    """Half of the texts of each label are new, so that only the words decide."""
    runtime = pytest.importorskip("keras_attn_runtime")
    pytest.importorskip("tf2onnx")
    rows = [(text, label) for label, words in (("x", "ab"), ("y", "cd")) for text in words * 200]
    lines = [f"{label}\t{text} {number}\n" for number, (text, label) in enumerate(rows)]
    (tmp_path / "texts.tsv").write_text("".join(lines))
    output = python(tmp_path, SCRIPT, "--data", "texts.tsv", "--out", "run").stdout
    assert "accuracy: " in output and "next: keras-attn export onnx run classifier.onnx" in output
    python(tmp_path, "-m", "keras_attn_commands", "export", "onnx", "run", "classifier.onnx")
    classifier = runtime.Classifier(tmp_path / "classifier.onnx")
    assert classifier.labels == ["x", "y"]
    assert classifier(["a 1000", "c 1000"]) == ["x", "y"]


def test_the_language_model_knows_one_id_more_than_the_tokenizer():
    encoder = pretrain_classifier.make_encoder(SimpleNamespace(vocabulary_size=20), SETTINGS)
    assert keras_attn.masked_language_model(encoder).output_shape == (None, None, 21)


def test_masked_batches_hide_other_words_in_each_epoch():
    mask = 40
    batches = pretrain_classifier.MaskedBatches(ROWS * 5, [0] * 5 * len(ROWS), mask)
    hidden = []
    for epoch in range(2):
        found = {}
        for step in range(epoch * len(batches), (epoch + 1) * len(batches)):
            token_ids, labels = batches.batch(step)
            assert token_ids.shape == labels.shape and labels.max() < mask
            assert (labels[token_ids == mask] != 0).all()  # the mask is in no sentence
            found[step % len(batches)] = labels.tolist()
        assert any(np.any(rows) for rows in found.values())
        hidden.append(found)
    assert hidden[0] != hidden[1]


def test_generated_sentences_are_balanced():
    splits = pretrain_classifier.write_sentences()
    train = splits["train"]
    assert len(train.texts) == 4000 and 1900 < train.labels.count("neg") < 2100
    words = {
        side: {
            word
            for text, label in zip(train.texts, train.labels, strict=True)
            if label == side
            for word in text.replace(",", " ").split()
        }
        for side in ("neg", "pos")
    }
    assert len(words["pos"] - words["neg"]) == len(words["neg"] - words["pos"]) == 12


def test_wrong_files_are_one_line(tmp_path):
    (tmp_path / "train.neg").write_text("a\n")
    process = python(tmp_path, SCRIPT, "--data", tmp_path, "--out", "run", status=1)
    assert process.stderr.splitlines()[-1].startswith("Expected train.tsv, train.csv, or a file")
