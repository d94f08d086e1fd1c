import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn._backend.replicas import pad_batch_to_replicas

HERE = Path(__file__).parent


def test_pad_batch_to_replicas():
    batch = {"a": np.ones((5, 2), "int32")}, np.ones((5, 3), "float32")
    inputs, labels = pad_batch_to_replicas(batch, 4)
    np.testing.assert_array_equal(inputs["a"], [[1, 1]] * 5 + [[1, 0]] * 3)
    np.testing.assert_array_equal(labels, np.repeat([[1], [0]], [5, 3], axis=0) * [1, 1, 1])
    assert inputs["a"].dtype == "int32" and labels.dtype == "float32"
    batch = np.array([[0.5, 1.5]]), np.array([[7]]), np.array([[1.0]])
    inputs, labels, weights = pad_batch_to_replicas(batch, 2, ignore_class=-100)
    np.testing.assert_array_equal(inputs, [[0.5, 1.5]] * 2)
    np.testing.assert_array_equal(labels, [[7], [-100]])
    np.testing.assert_array_equal(weights, [[1.0], [0.0]])


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="DataParallel is for JAX")
def test_fit_on_three_devices_equals_fit_on_one(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}", "JAX_PLATFORMS": "cpu"}
    process = subprocess.run(
        [sys.executable, HERE / "data_parallel_training.py", tmp_path / "report.json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["one"]["devices"], report["three"]["devices"]) == (1, 3)
    logs = report["one"]["logs"]
    assert logs.keys() == report["three"]["logs"].keys() and "val_loss" in logs
    for name, values in logs.items():
        np.testing.assert_allclose(report["three"]["logs"][name], values, rtol=1e-5, err_msg=name)
    assert np.isfinite(report["other class"]["loss"]).all()
