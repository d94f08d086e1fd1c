"""Files that `former_files/make.py` made with an earlier version load and give their results."""

import pickle
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn  # noqa: F401 - registers the layers
from keras_attn.training import RunDirectory
from tests.backend import requires_tensorflow

FOLDER = Path(__file__).parent / "former_files"
IDS = np.array([[4, 5, 6, 2], [6, 5, 2, 0]], "int32")
SERIES = np.linspace(0, 1, 14, dtype="float32").reshape(2, 7, 1)
SENTENCES = ["ab ba", "ab abba", "ba baab ab", "abba"]


def unpack(name, directory):
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
        archive.extractall(directory)
    return dict(np.load(directory / "results.npz"))


def assert_predicts(model, inputs, expected):
    results = model.predict(inputs, verbose=0)
    results = results if isinstance(results, dict) else {"outputs": results}
    for name, value in expected.items():
        np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["rnn", "transformer", "masked", "sampler"])
def test_model_loads(name, tmp_path):
    expected = unpack(name, tmp_path)
    model = keras.models.load_model(tmp_path / "model.keras")
    assert_predicts(model, SERIES if name == "sampler" else IDS, expected)


@requires_tensorflow("tokenizers need TensorFlow Text")
def test_run_loads(tmp_path):
    expected = unpack("run", tmp_path)
    run = RunDirectory(tmp_path / "run")
    assert run.model_card.license == "CC0-1.0"
    tokenizer = run.source_tokenizer
    assert tokenizer.decode(tokenizer.encode(["abba"])) == ["abba"]
    assert_predicts(run.load_model(), IDS, expected)


@requires_tensorflow("the runtime is tested once")
def test_exported_file_and_pickle_load(tmp_path):
    unpack("onnx", tmp_path)
    runtime = pytest.importorskip("keras_attn_runtime")
    former = pickle.loads((tmp_path / "translation.pickle").read_bytes())
    assert former == runtime.Translator(tmp_path / "model.onnx").translate(SENTENCES)[0]
