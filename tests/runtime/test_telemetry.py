"""ONNX Runtime writes no files to the home directory."""

import os
import subprocess
import sys

import pytest

from tests.runtime.conftest import RUNTIME

RUN_TRANSLATOR = """
import os, sys
from keras_attn_runtime import Translator
Translator(sys.argv[1])(["some text"])
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""
IMPORT_FOR_EXPORT = """
import os
from keras_attn.export._require import require
require("onnxruntime", "tf2onnx")
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


def run(program, model_path, tmp_path, **variables):
    """Runs a program with an empty home directory. Returns its output and the files it wrote."""
    home = tmp_path / "home"
    home.mkdir()
    removed = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in removed}
    environment |= {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "KERAS_HOME": str(tmp_path / "keras"),
        "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
        "PYTHONPATH": os.pathsep.join([str(RUNTIME.parent), str(RUNTIME)]),
        **variables,
    }
    process = subprocess.run(
        [sys.executable, "-c", program, str(model_path)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip(), [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.parametrize("program", [RUN_TRANSLATOR, IMPORT_FOR_EXPORT], ids=["runtime", "export"])
def test_home_stays_empty(program, model_path, tmp_path):
    assert run(program, model_path, tmp_path) == ("1", [])


def test_choice_of_the_user_stays(model_path, tmp_path):
    printed, _ = run(RUN_TRANSLATOR, model_path, tmp_path, ORT_DISABLE_TELEMETRY="0")
    assert printed == "0"
