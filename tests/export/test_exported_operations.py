"""Tests the published table of operations, see `sweep_keras_operations`."""

import inspect
import json
import os
import subprocess
import sys

import keras
import pytest

from tests.export.layer_cases import ALIASES
from tests.export.operation_cases import CASES, NOT_IN_A_MODEL
from tests.export.sweep_keras_operations import TABLE


def published():
    """Returns a dict from each name of the table to our result."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [
        line.strip("| ").split(" | ") for line in lines if line.startswith(("| ops.", "| layers."))
    ]
    return {name: ours for name, ours, *_ in rows}


def test_each_public_operation_and_layer_has_a_case_or_a_reason():
    functions = {f"ops.{name}" for name, each in vars(keras.ops).items() if callable(each)}
    classes = {
        f"layers.{name}" for name, each in vars(keras.layers).items() if inspect.isclass(each)
    }
    public = {name for name in functions | classes if "._" not in name}
    known = {*CASES, *NOT_IN_A_MODEL, *(f"layers.{name}" for name in ALIASES)}
    assert public == known
    for name, other in ALIASES.items():
        assert getattr(keras.layers, name) is getattr(keras.layers, other)
    assert set(published()) == set(CASES)


def test_the_published_table_has_no_wrong_file():
    for name, ours in published().items():
        assert "wrong" not in ours and "crashed" not in ours, name


@pytest.mark.slow
def test_the_sweep_finds_what_the_table_says(tmp_path):
    """If a new release of a dependency changes a row, generate the table again."""
    command = [sys.executable, "-m", "tests.export.sweep_keras_operations", "--rows"]
    root = TABLE.parents[1]
    process = subprocess.run(
        [*command, tmp_path / "rows.json"],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "export")]),
            "TF_ENABLE_ONEDNN_OPTS": "0",
        },
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {name: ours for name, ours, _ in rows} == published()
