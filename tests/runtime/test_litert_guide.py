"""The Python of the LiteRT guides that runs a translator works as printed."""

from pathlib import Path

import pytest

from tests.page_blocks import run_block
from tests.runtime.fake_litert import litert_bytes


def test_guides_of_litert_run_a_file(tokenizer_model, tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert")
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(litert_bytes(tokenizer_model))
    translator = run_block("litert.md", 2, {})["translator"]
    assert translator(["some text"]) == ["some text"]
    assert run_block("phones.md", 0, {})["best"].tolist() == [17, 4, 9]  # copies its source
