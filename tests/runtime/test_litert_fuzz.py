"""Damaged LiteRT files through the command: one line of error, and no damaged model is run."""

import hashlib
import io
import random
from collections import Counter

import pytest
from keras_attn_runtime._commands.main import main

from tests.runtime.damaged_files import CASES, damaged
from tests.runtime.fake_litert import litert_bytes, model_bytes
from tests.runtime.fake_model import SENTENCES

interpreter = pytest.importorskip("ai_edge_litert.interpreter")

MOST_CRASHES = 0.02
"""Fraction of damaged files without a checksum that may crash; docs/phones.md has the counts."""


class WatchedInterpreter(interpreter.Interpreter):
    """An interpreter that records the checksums of its models."""

    seen: set[str] = set()

    def __init__(self, model_content, num_threads):
        self.seen.add(hashlib.sha256(model_content).hexdigest())
        super().__init__(model_content=model_content, num_threads=num_threads)


def run_command(path, tmp_path, monkeypatch):
    """Returns the exit status, the output and the messages of `translate`."""
    lines = "".join(f"{sentence}\n" for sentence in SENTENCES).encode()
    with monkeypatch.context() as patch, open(tmp_path / "out", "w") as stdout:
        messages = io.StringIO()
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
        patch.setattr("sys.stdout", stdout)
        patch.setattr("sys.stderr", messages)
        status = main(["translate", str(path), "--threads", "1"])
    return status, (tmp_path / "out").read_text(), messages.getvalue()


@CASES
def test_damaged_litert_files_never_reach_the_interpreter(
    cases, tokenizer_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(interpreter, "Interpreter", WatchedInterpreter)
    content, path = litert_bytes(tokenizer_model), tmp_path / "model.tflite"
    path.write_bytes(content)
    whole = run_command(path, tmp_path, monkeypatch)
    assert whole[0] == 0 and whole[1].splitlines() == SENTENCES
    outcomes = Counter()
    for seed in range(cases):
        path.write_bytes(damaged(content, random.Random(seed)))
        status, output, messages = run_command(path, tmp_path, monkeypatch)
        where = f"seed {seed}: {messages}"
        outcomes[status] += 1
        if status == 0:  # the damage is where no program reads, such as in a time
            assert (output, messages) == whole[1:], where
        else:
            assert (status, output) == (1, ""), where
            assert messages.startswith("error: ") and messages.count("\n") == 1, where
    assert WatchedInterpreter.seen == {hashlib.sha256(model_bytes()).hexdigest()}
    assert outcomes[1] > 0.9 * cases
    print(dict(outcomes))


@pytest.mark.slow
def test_damaged_litert_files_without_checksum(tokenizer_model, tmp_path, model_tester):
    """Without its checksum, a damaged model can crash LiteRT, so each runs in a child process."""
    size, path = len(model_bytes()), tmp_path / "model.tflite"
    content = litert_bytes(tokenizer_model, with_model_checksum=False)
    outcomes = Counter()
    for seed in range(1000):
        model = damaged(content[:size], random.Random(seed))
        path.write_bytes(model + content[size:])
        kind, message = model_tester.outcome(path)
        outcomes[f"ended {message}" if kind == "ended" else kind] += 1
    print(dict(outcomes))
    crashes = {kind: count for kind, count in outcomes.items() if kind.startswith("ended")}
    assert sum(crashes.values()) <= MOST_CRASHES * 1000
    assert set(outcomes) - {*crashes, "hung"} == {"refused", "translated"}
