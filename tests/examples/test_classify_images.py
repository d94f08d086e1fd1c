"""A short run of the example, and what a fresh process and ONNX Runtime make of its files."""

import json

import numpy as np
import pytest

from tests.examples.scripts import EXAMPLES, predict, python

SCRIPT = EXAMPLES / "classify_images.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("digits")
    short = SCRIPT.read_text("utf-8").replace("EPOCHS, SEED = 15, 1", "EPOCHS, SEED = 1, 1")
    (folder / "short.py").write_text(short, "utf-8")
    python(folder, "short.py", "--out", folder)
    assert json.loads((folder / "results.json").read_text())["arguments"]["epochs"] == 1
    return folder


@pytest.fixture(scope="module")
def reloaded(run):
    """All images, and their logits by the saved model in a fresh process."""
    from sklearn.datasets import load_digits

    images = load_digits().images[..., None].astype("float32") / 16
    return images, predict(run / "model.keras", images)


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


@pytest.mark.slow
def test_says_what_is_missing(tmp_path):
    """In a process in which scikit-learn cannot be found."""
    (tmp_path / "sklearn.py").write_text("raise ImportError('none here')")
    script = f"import sys, runpy; sys.path.insert(0, '.'); runpy.run_path({str(SCRIPT)!r})"
    assert "pip install scikit-learn" in python(tmp_path, "-c", script, status=1).stderr
