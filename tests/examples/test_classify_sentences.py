"""The default run of the example, and what other processes make of the files that it writes."""

import re

import numpy as np
import pytest

from tests.examples.scripts import EXAMPLES, predict, python

pytestmark = pytest.mark.slow
SCRIPT = EXAMPLES / "classify_sentences.py"
IDS = np.array([[3, 9, 2, 5, 4, 7], [5, 2, 8, 0, 0, 0], [6, 0, 0, 0, 0, 0]], "int32")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder and the output of one default run."""
    folder = tmp_path_factory.mktemp("classifier")
    return folder / "out", python(folder, SCRIPT, "--out", folder / "out").stdout


@pytest.fixture(scope="module")
def reloaded(run):
    """Outputs for `IDS` of the saved model in a fresh process."""
    return predict(run[0] / "model.keras", IDS)


@pytest.mark.slow
def test_learns_that_not_turns_the_meaning(run):
    assert float(re.search(r"^accuracy: ([\d.]+)", run[1], re.MULTILINE)[1]) > 0.98


def test_writes_the_vocabulary(run):
    words = (run[0] / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    assert words[:2] == ["", "[UNK]"] and {"not", "film", "dull"} <= set(words)


def test_draws_the_attention(run):
    assert (run[0] / "attention.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_fresh_process_computes_from_the_saved_model(run, reloaded):
    """Against the file's own weights and NumPy: the equation of additive attention."""
    import keras

    import keras_attn

    model = keras.models.load_model(run[0] / "model.keras")
    inner = model.get_layer("bahdanau_attention")
    assert isinstance(inner, keras_attn.BahdanauAttention)
    query, states = keras.Model(model.input, list(inner.input))(IDS)
    query, states = np.array(query), np.array(states)
    hidden = np.tanh(query @ inner.query_kernel.numpy() + states @ inner.key_kernel.numpy())
    scores = np.where(IDS != 0, (hidden @ inner.vector.numpy())[:, :, 0], -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(reloaded["attention"][:, 0], weights, atol=1e-6)
    context = (weights[:, :, None] * states).sum(axis=1)
    dense = model.get_layer("good")
    logits = context @ dense.kernel.numpy() + dense.bias.numpy()
    np.testing.assert_allclose(reloaded["good"], 1 / (1 + np.exp(-logits)), atol=1e-6)


def test_the_onnx_file_computes_the_same(run, reloaded):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(run[0] / "classifier.onnx")
    names = [output.name for output in session.get_outputs()]
    for rows in (IDS, IDS[:1]):
        results = dict(zip(names, session.run(names, {"ids": rows}), strict=True))
        for name, expected in reloaded.items():
            np.testing.assert_allclose(results[name], expected[: len(rows)], atol=1e-5)
