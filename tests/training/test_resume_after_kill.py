import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

# Training, saving and resuming have no branches that a killed process would take on JAX alone.
pytestmark = [pytest.mark.slow] if keras.backend.backend() == "jax" else []

HERE = Path(__file__).parent


def start(directory, kill_step):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "TF_NUM_INTRAOP_THREADS": "1"}
    command = [sys.executable, HERE / "resumable_training.py", directory, str(kill_step)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def result(process, directory):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    weights = np.load(directory / "weights.npz")
    return [weights[name] for name in weights.files], json.loads(
        (directory / "report.json").read_text()
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns weights and reports of an uninterrupted and of a killed and resumed training."""
    unbroken, killed = tmp_path_factory.mktemp("unbroken"), tmp_path_factory.mktemp("killed")
    process = start(unbroken, 0)
    victim = start(killed, 13)  # fifth of eight steps of the second epoch
    victim.communicate(timeout=600)
    assert victim.returncode == -signal.SIGKILL
    assert not (killed / "weights.npz").exists()
    return result(process, unbroken), result(start(killed, 0), killed)


def test_weights_equal_those_of_the_unbroken_run(runs):
    (unbroken, _), (resumed, _) = runs
    # Weights and seeds; for Adam two moments of each weight and two scalars.
    assert len(unbroken) == len(resumed) == 19 + 6 + 2 * 19 + 2
    for expected, received in zip(unbroken, resumed, strict=True):
        np.testing.assert_array_equal(received, expected)


def test_the_resumed_run_went_on_in_the_middle_of_the_epoch(runs):
    (_, unbroken), (_, resumed) = runs
    assert unbroken["steps_run"] == 24
    assert resumed["steps_run"] == 24 - 11  # saved after 3, 6, 8 (end of epoch) and 11 steps
    assert unbroken["finished"] and resumed["finished"]


def test_logs_and_callbacks_go_on_too(runs):
    (_, unbroken), (_, resumed) = runs
    assert [len(values) for values in unbroken["history"].values()] == [3] * 6
    assert resumed["history"] == unbroken["history"]
    assert resumed["best"] == unbroken["best"]
    assert resumed["average"] == unbroken["average"] == {"kept_epochs": [0, 1, 2]}
