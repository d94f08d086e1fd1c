import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn._backend.padded_batches import pad_batch, unpack, without_padding

HERE = Path(__file__).parent


def test_pad_batch():
    batch = {"a": np.arange(10).reshape(5, 2)}, [np.ones(5, "float32"), None]
    padded = pad_batch(batch, 4)
    (inputs, labels), marker = unpack(padded)
    np.testing.assert_array_equal(inputs["a"][5:], [[8, 9]] * 3)
    assert labels[0].shape == (8,) and labels[0].dtype == "float32" and labels[1] is None
    assert marker.shape == (4, 4)
    inputs, labels = without_padding(padded)
    np.testing.assert_array_equal(inputs["a"], batch[0]["a"])
    np.testing.assert_array_equal(labels[0], batch[1][0])
    assert without_padding(batch) is batch
    assert len(pad_batch(np.ones((3, 2)), 2)) == 1


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
