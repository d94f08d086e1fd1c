"""Batches of the pretrainings, the reported gain, and what ONNX Runtime makes of the classifier."""

import json
from types import SimpleNamespace

import numpy as np
import pretrain_autoencoder
import pytest

from tests.examples.scripts import EXAMPLES, predict, python

SCRIPT = EXAMPLES / "pretrain_autoencoder.py"
SMALL = "--units 16 --vocabulary-size 100 --seeds 1 2 --pretraining-epochs 1 --epochs 1".split()
TOKENIZER = SimpleNamespace(vocabulary_size=30, start_token_id=1, end_token_id=2)
PAIRS = [([5, 6, 7], 0), ([8, 9], 1), ([10], 0), ([11, 12, 13, 14], 1)]


def text_batches(kind, pairs=PAIRS):
    args = SimpleNamespace(batch_size=4, seed=1)
    batches = pretrain_autoencoder.TextBatches(pairs, args)
    batches.kind, batches.tokenizer = kind, TOKENIZER
    return batches


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of one epoch each, and what it reports."""
    folder = tmp_path_factory.mktemp("autoencoder")
    (folder / "more.txt").write_text("one more film\n" * 70)
    python(folder, SCRIPT, "--out", folder, "--unlabelled", "more.txt", *SMALL)
    return folder, json.loads((folder / "results.json").read_text())


@pytest.mark.slow
def test_reports_each_seed_and_the_means(run):
    _, report = run
    *single, scratch, autoencoder, language_model = report["rows"]
    assert len(single) == 6
    for mean, first in ((scratch, 0), (autoencoder, 1), (language_model, 2)):
        accuracies = [single[first]["accuracy"], single[first + 3]["accuracy"]]
        assert mean["accuracy"] == pytest.approx(np.mean(accuracies))
        assert mean["deviation"] == pytest.approx(np.std(accuracies, ddof=1))
    assert all(row["perplexity"] < 100 for row in single if "perplexity" in row)
    assert 0 <= report["largest_onnx_difference"] <= 1e-5


@pytest.mark.slow
def test_a_fresh_process_and_onnx_compute_the_same_logits(run):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, _ = run
    rows = np.array([[5, 6, 7, 8, 9], [10, 11, 0, 0, 0]], "int32")
    expected = predict(folder / "model.keras", rows)
    session = onnxruntime.InferenceSession(folder / "classifier.onnx")
    for batch, logits in ((rows, expected), (rows[1:, :2], expected[1:])):
        (found,) = session.run(["logits"], {"token_ids": batch})
        np.testing.assert_allclose(found, logits, atol=1e-5)


def test_autoencoder_batches_repeat_the_source():
    inputs, labels = text_batches("autoencoder")[0]
    assert inputs["source_ids"].tolist() == [[10, 0, 0, 0], [8, 9, 0, 0], [5, 6, 7, 0], PAIRS[3][0]]
    np.testing.assert_array_equal(inputs["target_ids"][:, 1:], inputs["source_ids"])
    assert (inputs["target_ids"][:, 0] == 1).all()
    assert labels.tolist() == [
        [10, 2, 0, 0, 0],
        [8, 9, 2, 0, 0],
        [5, 6, 7, 2, 0],
        [11, 12, 13, 14, 2],
    ]


def test_language_model_batches_predict_the_next_token():
    inputs, labels = text_batches("language model")[0]
    assert inputs[3].tolist() == [11, 12, 13, 14]
    assert labels.tolist() == [[2, 0, 0, 0], [9, 2, 0, 0], [6, 7, 2, 0], [12, 13, 14, 2]]


def test_long_sentences_are_cut():
    long = [([7] * 500, 0), ([8], 1)]
    inputs, labels = text_batches("autoencoder", long)[0]
    assert inputs["target_ids"].shape == labels.shape == (2, 128)
    assert inputs["source_ids"].shape == text_batches("language model", long)[0][1].shape


def test_pretraining_and_classifier_share_the_encoder():
    args = SimpleNamespace(units=8, dropout=0.0, seed=1, batch_size=4, epochs=1, learning_rate=0.1)
    args.pretraining_epochs = 2
    for name in ("autoencoder", "language model"):
        encoder = pretrain_autoencoder.make_encoder(TOKENIZER, args)
        encoder(np.array([[5, 6]]))
        before = [each.numpy().copy() for each in encoder.weights]
        batches = pretrain_autoencoder.TextBatches(PAIRS, args)
        pretrain = pretrain_autoencoder.PRETRAININGS[name]
        assert pretrain(encoder, batches, batches, TOKENIZER, args) < 40
        assert len(before) == 4  # embedding, two kernels, bias
        assert all(np.any(old != new) for old, new in zip(before, encoder.weights, strict=True))


def test_labelled_sentences_are_balanced():
    assert pretrain_autoencoder.balanced(PAIRS, 2) == [PAIRS[0], PAIRS[1]]
    assert pretrain_autoencoder.balanced(PAIRS, None) == PAIRS


def test_gain_is_reported_only_if_every_seed_has_it():
    found = {"random weights": [0.5, 0.6], "autoencoder": [0.7, 0.65], "language model": [0.5, 0.9]}
    assert pretrain_autoencoder.gain(found) == (
        "No reliable gain: the language model changes the accuracy by 0.1500, minimum 0.0000."
    )
    found["language model"] = [0.5, 0.5]
    assert pretrain_autoencoder.gain(found) == "Gain of the autoencoder: 0.1250, with each seed."
