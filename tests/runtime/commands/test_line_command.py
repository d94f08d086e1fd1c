"""Exit of a command after an error without a line or an interrupt without a signal."""

import pytest
from keras_attn_runtime._commands import line_command
from keras_attn_runtime._commands.main import main
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
