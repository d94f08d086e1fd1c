"""Uneven batches on two devices are trained like on one device, or rejected by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from tests.slow_cases import slow_on_jax

HERE = Path(__file__).parent
BACKEND = keras.backend.backend()
if BACKEND == "torch":
    pytest.skip("Keras has no distribution for PyTorch", allow_module_level=True)

REASONS = {
    "scalar loss": "the loss 'scalar_loss' does not return a value for each row",
    "loss Circle": "the loss 'circle' of a row depends on other rows",
    "loss Dice": "the loss 'dice' does not return a value for each row",
    "loss Tversky": "the loss 'tversky' does not return a value for each row",
    "weighted loss, reduction=None": "has reduction=None",
    "metric of a maximum": "the states of the metric 'maximum' cannot be added up over replicas",
    "metric function of one number": "the states of the metric 'scalar_loss' cannot be added up",
    "train_step": "the model overrides train_step",
    "compute_loss": "the model overrides compute_loss",
    "compute_metrics": "the model overrides compute_metrics",
    "BatchNormalization": "the layer 'batch_normalization' normalizes over the rows of a batch",
    "BatchNormalization, synchronized": "normalizes over the rows of a batch",
    "clipnorm": "the optimizer clips the gradients of each replica alone (global_clipnorm)",
    "activity regularizer": "a layer adds losses of its inputs or outputs",
}
"""Cases that TensorFlow rejects for uneven batches, and why."""

DIFFERENT_IN_KERAS = (
    "scalar loss",
    "loss Circle",
    "loss Dice",
    "loss Tversky",
    "weighted loss, reduction=None",
    "metric of a maximum",
    "metric function of one number",
    "compute_loss",
    "BatchNormalization",
    "clipnorm",
)
"""Cases in which even batches on two TensorFlow replicas have the results of Keras itself."""


def report_of(directory, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1]),
        "TF_NUM_INTRAOP_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
    }
    path = directory / "report.json"
    process = subprocess.run(
        [sys.executable, HERE / "uneven_training.py", path, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(path.read_text())


def check(report):
    wrong = {}
    for name, outcome in report.items():
        case, kind = name.rsplit(", ", 1)
        expected = "equal"
        if BACKEND == "tensorflow" and kind == "uneven" and case in REASONS:
            expected = REASONS[case]
        elif BACKEND == "tensorflow" and case == "steps_per_execution":  # fails in Keras
            expected = "Expected steps_per_execution=1"
        elif BACKEND == "tensorflow" and case in DIFFERENT_IN_KERAS:
            expected = "different in Keras itself"
        if expected not in outcome:
            wrong[name] = f"{outcome} instead of {expected}"
    assert not wrong, wrong


@slow_on_jax
def test_uneven_batches_are_trained_or_rejected(tmp_path):
    names = ["several outputs"]
    if BACKEND == "tensorflow":
        names += ["train_step", "BatchNormalization"]
    check(report_of(tmp_path, "--uneven", *names))


@pytest.mark.slow
def test_losses_metrics_and_optimizers_on_two_devices(tmp_path):
    check(report_of(tmp_path))
