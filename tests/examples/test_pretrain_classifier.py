"""A short run of the example, and what a fresh process and ONNX Runtime make of its files."""

import json
from types import SimpleNamespace

import numpy as np
import pretrain_classifier
import pytest

import keras_attn
from tests.examples.scripts import EXAMPLES, predict, python

SCRIPT = EXAMPLES / "pretrain_classifier.py"
SMALL = "--embedding-dim 32 --layers 1 --heads 2 --vocabulary-size 100".split()
PAIRS = [(list(range(5, 5 + length)), length % 2) for length in range(1, 30)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of one epoch each, and what it reports."""
    folder = tmp_path_factory.mktemp("pretrained")
    options = ["--pretraining-epochs", 1, "--epochs", 1, *SMALL]
    python(folder, SCRIPT, "--out", folder, *options)
    return folder, json.loads((folder / "results.json").read_text())


@pytest.mark.slow
def test_reports_the_sentences_and_the_onnx_file(run):
    _, report = run
    assert report["sentences"] == 500
    assert 0 <= report["largest_onnx_difference"] <= 1e-5


@pytest.mark.slow
def test_a_fresh_process_and_onnx_compute_the_same(run):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, _ = run
    rows = np.array([[5, 6, 7, 8, 9], [10, 11, 0, 0, 0]], "int32")
    expected = predict(folder / "model.keras", rows)
    assert expected.shape == (2, 2)
    session = onnxruntime.InferenceSession(folder / "classifier.onnx")
    for batch, logits in ((rows, expected), (rows[1:, :2], expected[1:])):
        (found,) = session.run(["logits"], {"token_ids": batch})
        np.testing.assert_allclose(found, logits, atol=1e-5)


def test_the_language_model_knows_one_id_more_than_the_tokenizer():
    args = SimpleNamespace(embedding_dim=16, layers=1, heads=2, dropout=0.1, seed=1)
    encoder = pretrain_classifier.make_encoder(SimpleNamespace(vocabulary_size=20), args)
    assert keras_attn.masked_language_model(encoder).output_shape == (None, None, 21)


def batches_of(kind, *arguments, seed=3):
    args = SimpleNamespace(batch_size=4, seed=seed, mask_rate=0.5)
    return kind(PAIRS, *arguments, args)


def test_each_sentence_is_in_one_batch_in_each_epoch():
    batches = batches_of(pretrain_classifier.Batches)
    assert len(batches) == 8
    orders = []
    for _ in range(2):
        rows = [
            (ids[ids != 0].tolist(), label)
            for index in range(len(batches))
            for ids, label in zip(*batches[index], strict=True)
        ]
        assert sorted(rows) == sorted(PAIRS)
        orders.append(rows)
        batches.on_epoch_end()
    assert orders[0] != orders[1]


def test_the_first_two_batches_show_whether_the_length_varies():
    """Keras takes the shapes of all batches from these; a wrong guess ends the training."""
    batches = batches_of(pretrain_classifier.Batches)
    lengths = [batches[index][0].shape[1] for index in range(len(batches))]
    assert lengths[0] == min(lengths) < lengths[1] == max(lengths) == 29
    args = SimpleNamespace(batch_size=64, seed=3)
    assert len(pretrain_classifier.Batches(PAIRS, args)) == 1


def test_masked_batches_hide_other_words_in_each_epoch():
    size = 40
    batches = batches_of(pretrain_classifier.MaskedBatches, size)
    hidden = []
    for _ in range(2):
        found = set()
        for index in range(len(batches)):
            token_ids, labels = batches[index]
            assert token_ids.shape == labels.shape
            assert (labels[token_ids == size] != 0).all()  # the mask is in no sentence
            assert labels.max() < size
            found |= set(zip(*np.nonzero(labels), strict=True))
        assert found
        hidden.append(found)
        batches.on_epoch_end()
    assert hidden[0] != hidden[1]


def test_long_sentences_are_cut():
    rows = pretrain_classifier.pad([[7] * 500, [8]])
    assert rows.shape == (2, 128)
    assert rows[1].tolist() == [8] + [0] * 127


def test_generated_sentences_are_balanced(tmp_path):
    data = pretrain_classifier.write_sentences(tmp_path / "data", seed=1)
    lines = {side: (data / f"train.{side}").read_text().splitlines() for side in ("neg", "pos")}
    assert {side: len(found) for side, found in lines.items()} == {"neg": 2000, "pos": 2000}
    words = {side: {word for line in lines[side] for word in line.split()} for side in lines}
    assert len(words["pos"] - words["neg"]) == len(words["neg"] - words["pos"]) == 12


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SystemExit, match="No valid.pos"):
        pretrain_classifier.find(tmp_path, "valid", "pos")
