"""Trains with two workers on this machine, started by `keras-attn launch`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn

HERE = Path(__file__).parent
BACKEND = keras.backend.backend()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BACKEND == "torch", reason="several workers need TensorFlow or JAX"),
]
LAUNCH = "import sys; from keras_attn_commands.main import main; sys.exit(main(sys.argv[1:]))"


def run(*command):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "TF_NUM_INTRAOP_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
    )


def run_two_workers(*arguments):
    return run("-c", LAUNCH, "launch", "--workers", "2", *arguments)


def arrays(path):
    with np.load(path) as file:
        return [file[name] for name in file.files]


def assert_close(received, expected, tolerance):
    """Compares weights by their norms."""
    assert len(received) == len(expected)
    for array, truth in zip(received, expected, strict=True):
        assert np.linalg.norm(array - truth) <= tolerance * np.linalg.norm(truth)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Returns the directory of a training with one process."""
    directory = tmp_path_factory.mktemp("one")
    process = run(HERE / "worker_training.py", directory, "0")
    assert process.returncode == 0, process.stderr
    return directory


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Returns the directory of the training with two workers, and the errors of the killed run."""
    directory = tmp_path_factory.mktemp("two")
    killed = run_two_workers(HERE / "worker_training.py", directory, "17")
    assert killed.returncode == 128 + 9, killed.stderr
    assert not list(directory.glob("weights-*"))
    process = run_two_workers(HERE / "worker_training.py", directory, "0")
    assert process.returncode == 0, process.stderr
    return directory, killed.stderr


def test_workers_have_bit_equal_weights(two):
    for name in ("weights", "average"):
        first, second = (arrays(two[0] / f"{name}-{index}.npz") for index in range(2))
        assert all(map(np.array_equal, first, second))


def test_workers_train_like_one_process(one, two):
    assert_close(arrays(two[0] / "weights-0.npz"), arrays(one / "weights-0.npz"), 1e-3)
    assert_close(arrays(two[0] / "average-0.npz"), arrays(one / "average-0.npz"), 1e-3)
    expected = json.loads((one / "report-0.json").read_text())
    for index in range(2):
        report = json.loads((two[0] / f"report-{index}.json").read_text())
        assert report["best"]["best_epoch"] == expected["best"]["best_epoch"]
        assert "val_loss" in report["history"]
        for name, values in expected["history"].items():
            received = report["history"][name]
            np.testing.assert_allclose(received, values, atol=1e-5, rtol=1e-5)
    rows = (two[0] / "log.csv").read_text().split()  # worker 0 alone writes it
    assert [row.split(",")[0] for row in rows] == ["epoch", "0", "1", "2", "3", "4"]


def test_workers_resume_from_the_state_of_the_chief(two):
    for index in range(2):
        report = json.loads((two[0] / f"report-{index}.json").read_text())
        assert report["steps_run"] == 50 - 14  # saved after an epoch of 10 steps and 4 more steps


def test_chief_alone_writes(two):
    names = sorted(path.name for path in (two[0] / "state").iterdir() if path.suffix == ".npz")
    assert names == ["training-previous.npz", "training.npz"]
    best = keras.models.load_model(two[0] / "best.keras")
    assert type(best) is keras_attn.TrainingModel


def test_lost_worker_ends_the_other_with_a_clear_message(two):
    assert "Worker 1 failed: SIGKILL." in two[1]
    assert "RuntimeError: Expected all 2 workers to run until the end of the training" in two[1]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Keras' own division of arrays on TensorFlow")
def test_workers_train_in_float64_like_one_process(one, two):
    expected = arrays(one / "float64-0.npz")
    assert expected[0].dtype == "float64"
    for index in range(2):
        assert_close(arrays(two[0] / f"float64-{index}.npz"), expected, 1e-6)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="for MultiWorkerMirroredStrategy")
def test_keras_still_cannot_fit_under_the_strategy_of_tensorflow(tmp_path):
    """If this fails, `multi_worker_strategy` no longer needs its own `reduce`."""
    process = run_two_workers(HERE / "plain_worker_strategy.py", tmp_path)
    assert process.returncode == 0, process.stderr
    for index in range(2):
        errors = json.loads((tmp_path / f"{index}.json").read_text())
        assert "Attempt to convert a value" in errors["plain"]
        assert "Invalid reduction dimension 0" in errors["batches are reduced"]
