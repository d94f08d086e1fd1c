import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow

if keras.backend.backend() != "tensorflow":
    pytest.skip("MirroredStrategy is TensorFlow's", allow_module_level=True)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("mirrored")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "TF_NUM_INTRAOP_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, HERE / "mirrored_training.py", directory],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return json.loads((directory / "report.json").read_text())


def assert_equal_logs(logs):
    assert set(logs["one"]) == set(logs["two"])
    for name, values in logs["one"].items():
        np.testing.assert_allclose(logs["two"][name], values, rtol=1e-5, err_msg=name)


def test_losses_of_fifty_steps_equal_those_of_one_device(report):
    losses = report["by_package"]["one"]["loss of each step"]
    assert len(set(losses)) == 50
    assert_equal_logs(report["by_package"])


def test_loss_and_metrics_work_with_the_fit_of_keras(report):
    assert report["by_keras"]["one"]["loss"][-1] < report["by_keras"]["one"]["loss"][0]
    assert_equal_logs(report["by_keras"])


def test_the_coverage_loss_weighs_the_tokens_of_all_replicas_alike(report):
    assert report["coverage"]["one"] > 0
    np.testing.assert_allclose(report["coverage"]["two"], report["coverage"]["one"], rtol=1e-6)


def test_a_step_is_left_out_if_the_gradients_of_any_replica_overflow(report):
    assert report["finite_steps"] == [[True, True], [False, False]]


def test_training_goes_on_under_the_strategy(report):
    assert report["resumed_equal"]
