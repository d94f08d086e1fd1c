"""Importing keras_attn without the backend that Keras is set to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("backend", [None, "jax", "torch"])
def test_import_without_the_backend_says_what_to_install(backend, tmp_path):
    missing = backend or "tensorflow"
    environment = {**os.environ, "KERAS_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("KERAS_BACKEND", None)
    if backend is not None:
        environment["KERAS_BACKEND"] = backend
    process = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{missing!r}] = None; import keras_attn"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    *_, line = process.stderr.splitlines()
    assert line.startswith("ImportError: Expected an installed backend of Keras.")
    assert f"Received: '{missing}', which is not installed." in line
    assert "KERAS_BACKEND=jax" in line and ".[tensorflow]" in line
    assert process.stderr.count("Traceback") == 1


LAZY = """
import sys
import keras_attn
lazy = ["keras_attn.convert", "keras_attn.testing", "keras_attn.text", "keras_attn.visualize"]
assert not [name for name in (*lazy, "keras_attn.export") if name in sys.modules]
for name in lazy:
    assert getattr(keras_attn, name.partition(".")[2]) is sys.modules[name]
assert {"convert", "export", "testing", "text", "visualize"} <= set(dir(keras_attn))
sys.modules["tensorflow"] = None
from keras_attn import *
assert BeamDecoder is keras_attn.BeamDecoder and training is keras_attn.training
assert "export" not in globals()
try:
    keras_attn.export
except ImportError as error:
    assert ".[export]" in str(error)
else:
    raise AssertionError
try:
    keras_attn.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
"""


def test_import_loads_packages_for_text_and_files_at_their_first_use():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", LAZY], env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
