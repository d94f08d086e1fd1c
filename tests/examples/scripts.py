"""Runs Python in a separate process: an example, or code that loads a model that it saved."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# Imports nothing of the library but its top.
PREDICT = """
import sys
import keras
import keras_attn
import numpy as np
model = keras.models.load_model(sys.argv[1])
np.save("outputs.npy", model.predict(np.load("inputs.npy"), verbose=0))
"""


def python(folder, *arguments, status=0):
    """Runs `python *arguments` in a folder; it must end with `status`. Returns the process."""
    process = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "export")]),
            "MPLBACKEND": "Agg",
        },
    )
    assert process.returncode == status, process.stderr
    return process


def predict(model, inputs):
    """Outputs of a saved model in a fresh process: an array, or a dictionary of them."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "inputs.npy"), inputs)
        python(folder, "-c", PREDICT, model)
        return np.load(Path(folder, "outputs.npy"), allow_pickle=True)[()]
