"""Reading exports while another process replaces them, and killed exports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="needs an atomic exchange"),
]


def counts(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "export")])}
    process = subprocess.run(
        [sys.executable, HERE / script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_runtime_never_mixes_two_exports(tmp_path):
    (found,) = counts("replace_while_read.py", tmp_path, "--reads", 300)
    assert found["both_found"] and found["mixed"] == 0
    assert found["failed"] == found.get("failed: ModelFileError", 0)  # replaced five times


def test_tensorflow_reads_a_saved_model_while_it_is_replaced(tmp_path):
    """TensorFlow opens files by path, so it can fail or mix exports, as documented."""
    arguments = ("--reader", "tensorflow", "--reads", 100, "--pause", 0.2)
    (found,) = counts("replace_while_read.py", tmp_path, *arguments)
    assert found["both_found"] and found["old_or_new"] > 50


def test_killed_exports_leave_a_whole_one(tmp_path):
    """Set KERAS_ATTN_TEST_RUN to a run of `make demo`; otherwise a small run is trained."""
    run = os.environ.get("KERAS_ATTN_TEST_RUN")
    if run is None:
        run = tmp_path / "run"
        command = [sys.executable, "-m", "keras_attn_commands", "train", "translation"]
        command += ["--run-dir", run, "--epochs", "1", "--units", "8", "--embedding-dim", "8"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, check=True, capture_output=True)
    kills = os.environ.get("KERAS_ATTN_TEST_KILLS", "3")
    found = counts("kill_exports.py", run, tmp_path / "exports", "--kills", kills)
    assert len(found) == 5
    for each in found:
        assert each["broken"] == each["left"] == 0, each
        assert each["kills"] > 0
