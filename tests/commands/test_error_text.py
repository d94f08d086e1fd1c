import pickle
from pathlib import Path

import pytest

from keras_attn.convert._conversion_error import ConversionError
from keras_attn_checks.export_options import LiteRTOptions, OnnxOptions
from keras_attn_checks.message import Argument, Message
from keras_attn_checks.output_path import check_output_path
from keras_attn_commands.error_text import error_text

OPTIONS = {
    "batch_size": "--batch-size",
    "precision": "--precision",
    "parity_inputs": "--parity-inputs",
}
PATHS = {"OUT": Path("a, b.onnx"), "--parity-sentences": Path("in.txt"), "RUN": None}


@pytest.mark.parametrize(
    "parts, expected",
    [
        (
            ["Export it with ", Argument("precision", "float32"), "."],
            "Export it with --precision float32.",
        ),
        (["Expected ", Argument("precision"), " of a file"], "Expected --precision of a file"),
        (["Received: ", Argument("batch_size", 0), ". A"], "Received: --batch-size 0. A"),
        (["Received: ", Argument("parity_inputs", None), "."], "Received: no --parity-inputs."),
        (
            ["Received: ", Argument("path", "a, b.onnx"), ", a file."],
            "Received: OUT='a, b.onnx', a file.",
        ),
        (
            ["Received: ", Argument("path", "in.txt"), ", line 3"],
            "Received: --parity-sentences in.txt, line 3",
        ),
        (["Received: ", Argument("path", "other"), ", a file."], "Received: path='other', a file."),
        (
            ["data/batch_size of own.yml or batch_size=."],
            "data/batch_size of own.yml or batch_size=.",
        ),
        (["two\n lines of ", Argument("units", 3)], "two lines of units=3"),
    ],
)
def test_arguments_become_options(parts, expected):
    error = ValueError(Message(*parts))
    assert error_text(error, OPTIONS, PATHS) == expected
    assert error_text(pickle.loads(pickle.dumps(error)), OPTIONS, PATHS) == expected


def test_conversion_error_keeps_the_arguments_of_its_message():
    error = ConversionError(Message("Received: ", Argument("config", "a.yml"), "."))
    assert str(error) == "Received: config='a.yml'."
    assert error_text(error, {"config": "--config"}, {}) == "Received: --config a.yml."


def test_other_errors_are_unchanged():
    error = OSError(28, "No space left on device", "path")
    assert error_text(error, {"path": "OUT"}, PATHS) == str(error)
    assert error_text(ValueError("precision='int8'"), OPTIONS, PATHS) == "precision='int8'"


@pytest.mark.parametrize(
    "call, python, command",
    [
        (
            lambda: OnnxOptions(precision="b"),
            "Received: precision='b'.",
            "Received: --precision b.",
        ),
        (
            lambda: LiteRTOptions(batch_size=0),
            "Received: batch_size=0.",
            "Expected --batch-size to",
        ),
        (
            lambda: check_output_path(Path("no/a, b.onnx")),
            "Received: path='no/a, b.onnx'.",
            "Received: OUT='no/a, b.onnx'. Create 'no' first.",
        ),
    ],
)
def test_errors_name_the_argument_of_the_caller(call, python, command):
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        call()
    assert python in str(caught.value)
    paths = {"OUT": Path("no/a, b.onnx")}
    assert command in error_text(caught.value, OPTIONS, paths)
