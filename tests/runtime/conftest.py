"""Fixtures: a tokenizer, an ONNX file that copies its input, and its `Translator`."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from keras_attn_runtime import Translator

from tests.runtime.fake_model import build_model, metadata, train_tokenizer

RUNTIME = Path(__file__).parents[2] / "export"


@pytest.fixture(scope="session")
def tokenizer_model():
    """Returns the bytes of a SentencePiece model."""
    return train_tokenizer()


@pytest.fixture(scope="session")
def model_path(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("runtime") / "model.onnx"
    onnx.save(build_model(metadata(tokenizer_model)), path)
    return path


@pytest.fixture(scope="session")
def translator(model_path):
    return Translator(model_path, num_threads=1)


@pytest.fixture
def write_model(tokenizer_model, tmp_path):
    """Writes a model file with different metadata or a different graph. Returns its path."""

    def write(
        properties=None, alignments=True, token_log_probs=False, top_tokens=False, **settings
    ):
        path = tmp_path / "other.onnx"
        properties = metadata(tokenizer_model, **settings) | (properties or {})
        properties = {key: value for key, value in properties.items() if value is not None}
        outputs = {"token_log_probs": token_log_probs, "top_tokens": top_tokens}
        model = build_model(properties, alignments, **outputs)
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def start_command():
    """Starts `python -m keras_attn_runtime`, whose default command is `translate`."""
    processes = []

    def start(*arguments, **streams):
        environment = dict(os.environ, PYTHONPATH=str(RUNTIME))
        process = subprocess.Popen(
            [sys.executable, "-m", "keras_attn_runtime", *map(str, arguments)],
            env=environment,
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            | streams,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def model_tester():
    """Returns a process that opens model files, see `damaged_files.ModelTester`."""
    from tests.runtime.damaged_files import ModelTester

    tester = ModelTester()
    yield tester
    tester.close()
