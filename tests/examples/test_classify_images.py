"""A short run of the example, and what a fresh process and ONNX Runtime make of its files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "classify_images.py"
LOAD = """
import sys
import keras
import keras_attn
import numpy as np
images = np.load(sys.argv[2])
model = keras.models.load_model(sys.argv[1])
np.save(sys.argv[3], model.predict(images, verbose=0))
"""


def python(folder, *arguments):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("digits")
    process = python(folder, SCRIPT, "--out", folder, "--epochs", 1)
    assert process.returncode == 0, process.stderr
    return folder


@pytest.fixture(scope="module")
def reloaded(run):
    """All images, and their logits by the saved model in a fresh process."""
    from sklearn.datasets import load_digits

    images = load_digits().images[..., None].astype("float32") / 16
    np.save(run / "images.npy", images)
    process = python(run, "-c", LOAD, run / "digits.keras", run / "images.npy", run / "logits.npy")
    assert process.returncode == 0, process.stderr
    return images, np.load(run / "logits.npy")


@pytest.mark.slow
def test_reports_what_it_learned(run):
    report = json.loads((run / "results.json").read_text())
    assert report["images"] == 360
    assert report["accuracy"] > 0.5  # chance is 0.1
    assert 0 <= report["largest_onnx_difference"] <= 1e-5


@pytest.mark.slow
def test_a_fresh_process_reads_the_digits(reloaded):
    from sklearn.datasets import load_digits

    _, logits = reloaded
    assert logits.shape == (1797, 10)
    assert np.mean(logits.argmax(axis=1) == load_digits().target) > 0.5


@pytest.mark.slow
def test_the_onnx_file_computes_the_same(run, reloaded):
    onnxruntime = pytest.importorskip("onnxruntime")
    images, logits = reloaded
    session = onnxruntime.InferenceSession(run / "digits.onnx")
    for rows in (images, images[:1]):
        (found,) = session.run(["logits"], {"images": rows})
        np.testing.assert_allclose(found, logits[: len(rows)], rtol=1e-5, atol=2e-5)


def test_says_what_is_missing(tmp_path):
    """In a process in which scikit-learn cannot be found."""
    (tmp_path / "sklearn.py").write_text("raise ImportError('none here')")
    script = f"import sys, runpy; sys.path.insert(0, '.'); runpy.run_path({str(SCRIPT)!r})"
    process = python(tmp_path, "-c", script)
    assert process.returncode == 1
    assert "pip install scikit-learn" in process.stderr
