import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_attn_commands.quiet_import import LOG_LEVEL, quiet_import
from tests.convert.small_checkpoints import write_folder

ROOT = Path(__file__).parents[2]
LINES = [
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
    b"I0000 00:00:1795837165.815378    7731 port.cc:153] oneDNN custom operations are on.\n",
    b"2026-11-28 03:40:56.815378: I tensorflow/core/util/port.cc:153] oneDNN custom operations\n",
    b"2026-11-28 03:40:56.815378: W tensorflow/compiler/tf2tensorrt/utils] TF-TRT Warning\n",
    b"I0000 00:00:1795837166.350376    7731 cpu_feature_guard.cc:227] This TensorFlow binary\n",
    b"E0000 00:00:1795840895.644962   29319 cuda_platform.cc:52] failed call to cuInit\n",
    b"To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow.\n",
]
OTHER = [
    b"F0000 00:00:1795837166.350376    7731 cpu_feature_guard.cc:227] compiled to use AVX\n",
    b"a warning of Python\n",
]


@pytest.mark.parametrize("level", ["", "1", "2"])
def test_log_lines_are_hidden_and_other_lines_are_not(monkeypatch, capfd, level):
    monkeypatch.setenv(LOG_LEVEL, level)
    with quiet_import():
        for line in [*LINES, *OTHER]:
            os.write(2, line)
    assert capfd.readouterr().err.encode() == b"".join(OTHER)
    assert os.environ[LOG_LEVEL] == "3"
    with pytest.raises(ImportError), quiet_import():
        os.write(2, LINES[0])
        raise ImportError
    os.write(2, b"after")
    assert capfd.readouterr().err.encode() == LINES[0] + b"after"


def test_log_level_0_shows_all_lines(monkeypatch, capfd):
    monkeypatch.setenv(LOG_LEVEL, "0")
    with quiet_import():
        for line in LINES:
            os.write(2, line)
    assert capfd.readouterr().err.encode() == b"".join(LINES)
    assert os.environ[LOG_LEVEL] == "0"


def test_an_error_after_the_import_is_one_line(tmp_path):
    pytest.importorskip("tensorflow")
    pytest.importorskip("safetensors")
    folder = write_folder(tmp_path / "folder", {"model_type": "unknown"})
    environment = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}
    process = subprocess.run(
        [sys.executable, "-m", "keras_attn_commands", "convert", str(folder), "RUN"],
        env={**environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith("Nothing was converted. Expected model_type in config.json")
    assert process.stderr.count("\n") == 1
