"""The command line of `keras-attn`, without models."""

import configparser
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_attn_commands.main import COMMANDS, main

ROOT = Path(__file__).parents[2]

HELP = """
import sys
from keras_attn_commands.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
heavy = {"keras_attn", "keras", "tensorflow", "jax", "torch", "numpy", "onnx", "onnxruntime"}
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["export", "--help"], ["export", "onnx", "--help"]], ids=" ".join
)
def test_help_imports_no_backend(arguments):
    process = subprocess.run(
        [sys.executable, "-c", HELP, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    *_, modules = process.stdout.splitlines()
    assert (process.returncode, process.stderr, modules) == (0, "", "[]")
    assert process.stdout.startswith("usage: keras-attn ")


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name, path in COMMANDS.items():
        module = importlib.import_module(path)
        assert f"  {name} " in shown and module.HELP in " ".join(shown.split())


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("keras-attn 0.")


@pytest.mark.parametrize("arguments", [[], ["exprot"], ["export"], ["export", "coreml", "a", "b"]])
def test_wrong_command_line_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_interrupt_exits_with_130(monkeypatch, tmp_path, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_attn_commands.export.check_export", interrupt)
    assert main(["export", "onnx", str(tmp_path), str(tmp_path / "model.onnx")]) == 130
    message = "Stopped. Nothing was exported. Run the same command to start again.\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("directory", [ROOT, ROOT / "export"], ids=["keras-attn", "runtime"])
def test_console_scripts_name_functions(directory):
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(directory / "setup.cfg", encoding="utf-8")
    scripts = setup["options.entry_points"]["console_scripts"].split("\n")
    for script in filter(None, scripts):
        module, _, function = script.partition(" = ")[2].partition(":")
        assert callable(getattr(importlib.import_module(module), function))
