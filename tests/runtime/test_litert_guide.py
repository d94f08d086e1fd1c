"""The Python of docs/litert.md that runs a file works as printed."""

import re
from pathlib import Path

import pytest

from tests.runtime.fake_litert import litert_bytes

GUIDE = Path(__file__).parents[2] / "docs" / "litert.md"


def test_guide_of_litert_runs_a_file(tokenizer_model, tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert")
    monkeypatch.chdir(tmp_path)
    Path("model.tflite").write_bytes(litert_bytes(tokenizer_model))
    text = GUIDE.read_text("utf-8").partition("\n## Run a LiteRT file\n")[2]
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    assert len(blocks) == 2
    assert names["translator"](["some text"]) == ["some text"]
    assert names["best"].tolist() == [17, 4, 9]  # the model copies its source
