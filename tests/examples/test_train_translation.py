"""What the example refuses; what it makes is the subject of `make demo`."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples" / "train_translation.py"


def test_a_run_directory_belongs_to_one_text(tmp_path):
    (tmp_path / "text.json").write_text('{"vocabulary_size": 8000, "tokenizer": "char"}')
    process = subprocess.run(
        [sys.executable, SCRIPT, "--run-dir", tmp_path], capture_output=True, text=True
    )
    assert process.returncode == 1 and "{'vocabulary_size': 8000}" in process.stderr
    assert "another --run-dir" in process.stderr and not (tmp_path / "translator.keras").exists()
