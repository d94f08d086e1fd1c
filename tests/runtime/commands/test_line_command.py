"""Options of commands that read lines, and their exit after errors and interrupts."""

import pytest
from keras_attn_runtime._commands import line_command
from keras_attn_runtime._commands.main import build_parser, main
from keras_attn_runtime._errors import BatchError


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (BatchError("no memory"), 1, "error: no memory\n"),
        (BatchError("no memory", 4), 1, "error: line 5: no memory\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
    ids=["no line", "line", "interrupt"],
)
def test_exit_status_of_errors(error, status, message, monkeypatch, capsys):
    def create(*_, **__):
        raise error

    monkeypatch.setattr(line_command, "Translator", create)
    assert main(["translate", "model.onnx"]) == status
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("text, value", [("2", 2), ("2.0", 2), ("2.5", None), ("-1", None)])
def test_lengths_are_whole_numbers(text, value, capsys):
    arguments = ["translate", "model.onnx", "--min-length", text]
    if value is None:
        with pytest.raises(SystemExit):
            build_parser().parse_args(arguments)
        assert "Expected min_length" in capsys.readouterr().err
    else:
        assert build_parser().parse_args(arguments).min_length == value
