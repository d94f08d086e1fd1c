"""Tests the published table of special values, see `sweep_special_values`."""

import os
import subprocess
import sys

import pytest

from tests.export.operation_cases import CASES
from tests.export.sweep_special_values import PAGE, Finding, cell

pytest.importorskip("ai_edge_litert.interpreter", reason="needs keras-attn[litert]")


def published():
    """Returns a dict from the names of the table to the cells for ONNX and LiteRT."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line[2:-2].split(" | ") for line in lines if line.startswith(("| ops.", "| layers."))]
    return {name.strip(): tuple(each.strip() for each in cells) for name, *cells in rows}


def test_special_values_table_has_only_operations():
    assert set(published()) <= set(CASES)


@pytest.mark.parametrize("name", ["ops.nan_to_num", "ops.isinf", "ops.softplus", "ops.expm1"])
def test_special_values_table_shows_no_difference_for_rewritten_operations(name):
    assert name not in published()


def test_special_values_cell_names_values_in_order():
    pairs = [
        ("a", Finding("exported", differences={"NaN": "1.0 instead of nan", "1e-45": "0 of 1"})),
        ("b", Finding("exported", differences={"0": "fails: division", "88": "inf instead of 1"})),
    ]
    assert cell(pairs, "ONNX") == "88, NaN; fails: 0"


@pytest.mark.slow
def test_special_values_sweep_writes_the_published_page(tmp_path):
    """If a new release of a dependency changes a row, generate the page again."""
    root = PAGE.parents[1]
    process = subprocess.run(
        [sys.executable, "-m", "tests.export.sweep_special_values", "--page", tmp_path / "page.md"],
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
    table = (tmp_path / "page.md").read_text(encoding="utf-8").split("Operation |")[1]
    assert table == PAGE.read_text(encoding="utf-8").split("Operation |")[1]
