"""The command line of `keras-attn-runtime`, without models."""

import inspect
import os
import subprocess
import sys

import keras_attn_runtime
import pytest
from keras_attn_runtime import __main__ as module_program
from keras_attn_runtime._calls.options import Options
from keras_attn_runtime._commands.main import COMMANDS, build_parser, main
from keras_attn_runtime._translate.translator import Translator

from tests.runtime.conftest import RUNTIME

HELP = """
import sys
from keras_attn_runtime._commands.main import COMMANDS, main
for arguments in ["--help"], *([name, "--help"] for name in COMMANDS):
    try:
        main(arguments)
    except SystemExit as end:
        assert end.code == 0
print(sorted({"onnxruntime", "onnx", "tensorflow", "keras", "keras_attn"} & set(sys.modules)))
"""


def test_help_imports_no_onnxruntime():
    process = subprocess.run(
        [sys.executable, "-c", HELP],
        env={**os.environ, "PYTHONPATH": str(RUNTIME)},
        capture_output=True,
        text=True,
    )
    *_, modules = process.stdout.splitlines()
    assert (process.returncode, process.stderr, modules) == (0, "", "[]")


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name, module in COMMANDS.items():
        assert f"  {name} " in shown and module.HELP in " ".join(shown.split())


def test_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"keras-attn-runtime {keras_attn_runtime.__version__}\n"


@pytest.mark.parametrize("command", [["translate", "file"], ["score", "file", "targets"]])
def test_defaults_are_those_of_the_translator(command):
    options = build_parser().parse_args(command)
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(Translator).parameters.items()
    }
    assert options.max_source_length == defaults["max_source_length"]
    assert options.max_source_characters == defaults["max_source_characters"]
    assert options.workers == defaults["num_workers"]
    assert options.threads == defaults["num_threads"]
    defaults = Options.of({})
    assert options.batch_size == defaults.batch_size
    assert (options.window, options.max_length) == (None, defaults.max_length)
    assert options.length_penalty == defaults.length_penalty


def test_unknown_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as end:
        main(["tranlsate", "model.onnx"])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert "'tranlsate'" in message and all(name in message for name in COMMANDS)


def test_a_file_alone_is_translated_by_the_module(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(COMMANDS["translate"], "run", lambda options: calls.append(options) or 0)
    assert module_program.main(["model.onnx", "--batch-size", "3"]) == 0
    assert module_program.main(["--batch-size", "3", "model.onnx"]) == 0
    assert module_program.main(["translate", "model.onnx", "--batch-size", "3"]) == 0
    assert [(each.model, each.batch_size) for each in calls] == [("model.onnx", 3)] * 3
    with pytest.raises(SystemExit):
        module_program.main(["--version"])
    assert capsys.readouterr().out.startswith("keras-attn-runtime ")


def test_interrupt_exits_with_130(monkeypatch):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["info"], "run", interrupt)
    assert main(["info", "model.onnx"]) == 130
