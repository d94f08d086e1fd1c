"""`fit` against `model.fit` for the losses, metrics, optimizers and callbacks of Keras."""

import json
import os
import subprocess
import sys

import pytest

from tests.training.fit_table import NOT_ITEMS, missing_items


def test_table_contains_all_public_classes_of_keras():
    assert set(missing_items()) == NOT_ITEMS


@pytest.mark.slow
def test_fit_equals_keras_or_rejects_by_name():
    program = [sys.executable, "-m", "tests.training.fit_table"]
    completed = subprocess.run(program, capture_output=True, text=True, env=os.environ, check=True)
    table = json.loads(completed.stdout.splitlines()[-1])
    wrong = {
        f"{name}, {condition}": result
        for name, results in table.items()
        for condition, result in results.items()
        if result not in ("equal", "rejected", "Keras")
    }
    assert not wrong, completed.stderr
