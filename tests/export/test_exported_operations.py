"""Tests the published table of operations, see `sweep_keras_operations`."""

import inspect

import keras
import pytest

from tests.export.layer_cases import ALIASES
from tests.export.operation_cases import CASES, NOT_IN_A_MODEL
from tests.export.sweep_keras_operations import TABLE, row, sweep


def published():
    """Returns a dict from each name of the table to our result and its differences."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = [
        line.strip("| ").split(" | ") for line in lines if line.startswith(("| ops.", "| layers."))
    ]
    cells = [[cell.strip(" |") for cell in row] + [""] * (4 - len(row)) for row in rows]
    return {name: (ours, limits) for name, ours, _, limits in cells}


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
    for name, (ours, _) in published().items():
        assert "wrong" not in ours and "crashed" not in ours, name


@pytest.mark.slow
def test_the_sweep_finds_what_the_table_says():
    """If a new release of a dependency changes a row, generate the table again."""
    results = sweep(say=lambda *_: None)
    found = {name: row(name, each) for name, each in results.items()}
    assert {name: (ours, limits) for name, ours, _, limits in found.values()} == published()
