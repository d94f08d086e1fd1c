"""The default run of the example, and what other processes make of the files that it writes."""

import json
import os
import re

import numpy as np
import pytest

from tests.examples.scripts import EXAMPLES, predict, python

pytestmark = pytest.mark.slow
SCRIPT = EXAMPLES / "classify_sentences.py"
IDS = np.array([[3, 9, 2, 5, 4, 7], [5, 2, 8, 0, 0, 0], [6, 0, 0, 0, 0, 0]], "int32")
TEXTS = [
    "the film is not bad, and the music is fun",
    "its plot is not good, and this story is dull",
    "",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder and the output of one default run."""
    folder = tmp_path_factory.mktemp("classifier")
    return folder / "out", python(folder, SCRIPT, "--out", folder / "out").stdout


def test_classify_sentences_learns_that_not_turns_the_meaning(run):
    assert float(re.search(r"^accuracy: ([\d.]+)", run[1], re.MULTILINE)[1]) > 0.98
    for name in ("model.keras", "attention.html", "classifier.onnx"):
        assert f"wrote {run[0] / name}" in run[1] and (run[0] / name).is_file()


def test_classify_sentences_draws_the_attention(run):
    page = (run[0] / "attention.html").read_text(encoding="utf-8")
    data = re.search(r'id="examples">(.*?)</script>', page)[1]
    for example in json.loads(data):
        assert re.fullmatch(r"(bad|good) \(\d+%\)", example["target"][0])
        ((_, (weights,)),) = example["weights"]
        assert len(weights) == len(example["source"]) and sum(weights) == pytest.approx(1, abs=0.01)


def test_classify_sentences_saves_a_model_that_a_fresh_process_runs(run):
    """Against the file's own weights and NumPy: the equations of the attention."""
    import keras

    import keras_attn

    reloaded = predict(run[0] / "model.keras", IDS)
    model = keras.models.load_model(run[0] / "model.keras")
    (layer,) = (each for each in model.layers if isinstance(each, keras_attn.AttentionPooling))
    states = np.array(keras.Model(model.input, layer.input)(IDS))
    hidden = np.tanh(states @ layer.kernel.numpy() + layer.bias.numpy())
    scores = np.where(IDS != 0, (hidden @ layer.context_vector.numpy())[:, :, 0], -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(reloaded["attention"], weights, atol=1e-6)
    dense = model.layers[-1]
    pooled = (weights[:, :, None] * states).sum(axis=1)
    exponents = np.exp(pooled @ dense.kernel.numpy() + dense.bias.numpy())
    expected = exponents / exponents.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(reloaded["probabilities"], expected, atol=1e-6)


def test_classify_sentences_writes_a_file_that_classifies_texts(run):
    runtime = pytest.importorskip("keras_attn_runtime")
    good, bad, blank = runtime.Classifier(run[0] / "classifier.onnx").classify(TEXTS)
    assert (good.label, bad.label, blank.label) == ("good", "bad", None)
    assert len(good.attention) == len(good.pieces)


def test_classify_sentences_runs_on_jax(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setitem(os.environ, "KERAS_BACKEND", "jax")
    output = python(tmp_path, SCRIPT).stdout
    assert float(re.search(r"^accuracy: ([\d.]+)", output, re.MULTILINE)[1]) > 0.98
    assert re.search("^No ONNX file. Expected .*KERAS_BACKEND=tensorflow", output, re.MULTILINE)
    assert not (tmp_path / "build/classifier/classifier.onnx").exists()


def test_classify_sentences_names_a_missing_and_an_empty_file(tmp_path):
    for side in ("neg", "pos"):
        (tmp_path / f"train.{side}").write_text("a film\n" if side == "neg" else "\n \n")
    process = python(tmp_path, SCRIPT, "--data", tmp_path, status=1)
    assert f"Received: '{tmp_path / 'train.pos'}', without any" in process.stderr.splitlines()[-1]
    (tmp_path / "valid.neg").write_text("a good film\n")
    process = python(tmp_path, SCRIPT, "--data", tmp_path, status=1)
    assert "for valid in" in process.stderr.splitlines()[-1]
