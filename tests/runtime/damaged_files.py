"""Random damage of model files, and a process that opens them and may crash."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.runtime.conftest import RUNTIME

CASES = pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.slow)])
TIMEOUT = 60  # seconds that a model file may take


class ModelTester:
    """Runs the process of `try_models` and restarts it after a crash."""

    def __init__(self):
        self.process = None

    def outcome(self, path):
        """Returns the result of `try_models`, "ended" and the exit status, or "hung"."""
        if self.process is None:
            environment = dict(os.environ, PYTHONPATH=str(RUNTIME))
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).parent / "try_models.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                text=True,
            )
        process = self.process
        clock = threading.Timer(TIMEOUT, process.kill)
        clock.start()
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        hung = clock.finished.is_set()
        clock.cancel()
        if line:
            return json.loads(line)
        self.close()
        return ["hung", ""] if hung else ["ended", str(process.returncode)]

    def close(self):
        if self.process is not None:
            self.process.communicate()
            self.process = None


def damaged(content, generator):
    """Returns the bytes with random damage, mostly in the graph, which is at the beginning."""
    content = bytearray(content)
    position = generator.randrange(generator.choice([3000, len(content)]))
    length = generator.choice([1, 10, 40, 1000])
    match generator.randrange(7):
        case 0:
            del content[position:]
        case 1:
            content[position] ^= 1 << generator.randrange(8)
        case 2:
            for _ in range(length):
                content[generator.randrange(len(content))] = generator.randrange(256)
        case 3:
            content[position : position + length] = bytes(length)
        case 4:
            content[position:position] = generator.randbytes(length)
        case 5:
            del content[position : position + length]
        case 6:
            content[position : position + length] = content[:length]
    return bytes(content)
