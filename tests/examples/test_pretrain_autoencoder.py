"""Data of the pretrainings, the weights that they train, and the exported classifier."""

import re

import numpy as np
import pretrain_autoencoder as example
import pytest

from tests.examples.scripts import EXAMPLES, predict, python

SMALL = example.Settings(labelled=16, units=8, dropout=0.0, pretraining=2, epochs=1, rate=0.1)
ROWS = [[5, 6, 7], [8, 9], [10], [11, 12, 13, 14]]


class Tokenizer:
    vocabulary_size, start_token_id, end_token_id = 30, 1, 2


@pytest.mark.slow
def test_the_best_classifier_is_saved_and_exported(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    few = (EXAMPLES / "pretrain_autoencoder.py").read_text("utf-8")
    for old, new in (
        ("SEEDS, BATCH_SIZE, MAX_LENGTH = (1, 2, 3)", "SEEDS, BATCH_SIZE, MAX_LENGTH = (1, 2)"),
        (
            "units=128, dropout=0.3, pretraining=8, epochs=5",
            "units=8, dropout=0.3, pretraining=1, epochs=1",
        ),
    ):
        assert old in few
        few = few.replace(old, new)
    (tmp_path / "few.py").write_text(few, "utf-8")
    for split, count in (("train", 200), ("valid", 50)):
        texts, labels = example.generate_sentences(count, 1)
        for number, label in enumerate(example.LABELS):
            lines = [text for text, each in zip(texts, labels, strict=True) if each == number]
            (tmp_path / f"{split}.{label}").write_text("\n".join(["", *lines, " ", ""]))
    (tmp_path / "more.txt").write_text("one more film\n" * 70)
    shown = python(tmp_path, "few.py", "--data", ".", "--unlabelled", "more.txt", "--out", "out")
    assert "5/5" in shown.stdout  # steps of 200 + 70 rows in batches of 64
    found = re.findall(r"^(.*): accuracy ([\d.]+), standard dev", shown.stdout, re.MULTILINE)
    assert [name for name, _ in found] == list(example.STARTS)
    rows = np.array([[5, 6, 7, 8, 9], [10, 11, 0, 0, 0]], "int32")
    expected = predict(tmp_path / "out" / "model.keras", rows)
    session = onnxruntime.InferenceSession(tmp_path / "out" / "classifier.onnx")
    for batch, logits in ((rows, expected), (rows[1:, :2], expected[1:])):
        (outputs,) = session.run(["logits"], {"token_ids": batch})
        np.testing.assert_allclose(outputs, logits, atol=1e-5)


def test_sentences_are_read_without_blank_lines(tmp_path):
    (tmp_path / "train.neg").write_text("bad\n\nworse\n")
    (tmp_path / "train.pos").write_text("good\n \n")
    texts, labels = example.read_sentences(tmp_path, "train")
    assert texts == ["bad", "worse", "good"] and labels.tolist() == [0, 0, 1]
    texts, labels = example.generate_sentences(16, seed=1)
    assert labels.tolist() == [0, 1] * 8 and len(set(texts)) == 16


@pytest.mark.parametrize("start", example.STARTS[1:])
def test_pretraining_predicts_the_next_token_with_the_encoder(start, monkeypatch):
    seen = []

    def fit(self, inputs, labels, *args, **kwargs):
        seen.append((inputs, labels))
        return original(self, inputs, labels, *args, **kwargs)

    original = example.keras.Model.fit
    monkeypatch.setattr(example.keras.Model, "fit", fit)
    encoder = example.make_encoder(30, SMALL)
    encoder(np.array([[5, 6]]))
    before = [np.array(each) for each in encoder.weights]
    example.pretrain(start, encoder, ROWS, Tokenizer, SMALL)
    assert len(before) == 4  # embedding, two kernels, bias
    for old, new in zip(before, encoder.weights, strict=True):
        assert np.any(old != np.array(new))
    ((inputs, labels),) = seen
    if start == "autoencoder":
        sources, inputs = inputs["source_ids"], inputs["target_ids"]
        assert sources.tolist() == [[5, 6, 7, 0], [8, 9, 0, 0], [10, 0, 0, 0], ROWS[3]]
    assert inputs.tolist()[:2] == [[1, 5, 6, 7, 0], [1, 8, 9, 0, 0]]
    assert labels.tolist()[:2] == [[5, 6, 7, 2, 0], [8, 9, 2, 0, 0]]
