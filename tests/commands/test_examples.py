"""`keras-attn examples`: copies the programs, also from a wheel, and keeps those of the user."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from keras_attn_commands.main import main

ROOT = Path(__file__).parents[2]
PROGRAMS = {path.name: path.read_bytes() for path in (ROOT / "examples").glob("*.py")}


def copies(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_every_program_is_copied_and_listed(tmp_path, capsys):
    directory = tmp_path / "my programs"
    assert main(["examples", str(directory)]) == 0
    shown = capsys.readouterr()
    assert copies(directory) == PROGRAMS and shown.err == ""
    *rows, wrote, run_one = shown.out.splitlines()
    assert dict(row.split(maxsplit=1) for row in rows) == {
        name: ast.get_docstring(ast.parse(content)).splitlines()[0]
        for name, content in PROGRAMS.items()
    }
    assert wrote == f"Wrote {len(PROGRAMS)} programs to {directory}"
    assert f"python '{directory / 'train_translation.py'}'" in run_one


def test_changed_programs_are_kept(tmp_path, capsys):
    (tmp_path / "tag_dates.py").write_text("mine")
    (tmp_path / "own.py").write_text("also mine")
    assert main(["examples", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    changed = {"tag_dates.py": b"mine", "own.py": b"also mine"}
    assert copies(tmp_path) == {**PROGRAMS, **changed}
    assert f"Wrote {len(PROGRAMS) - 1} programs" in shown.out
    assert "Kept tag_dates.py" in shown.err and "own.py" not in shown.err
    assert main(["examples", str(tmp_path), "--overwrite"]) == 0
    assert copies(tmp_path) == {**PROGRAMS, "own.py": b"also mine"}
    assert capsys.readouterr().err == ""


def test_a_file_instead_of_a_directory_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["examples", str(tmp_path / "file")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Expected a directory to write to. Received: ")
    assert str(tmp_path / "file") in error and error.count("\n") == 1


def test_a_wheel_contains_the_programs(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    build = "from setuptools import build_meta; import sys; build_meta.build_wheel(sys.argv[1])"
    source = tmp_path / "source"
    source.mkdir()
    for path in ROOT.iterdir():  # not in the checkout, where setuptools would write build/
        if path.name not in (".git", "build") and not path.name.endswith(".egg-info"):
            (source / path.name).symlink_to(path)
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=source, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    subprocess.run(
        [sys.executable, "-m", "keras_attn_commands", "examples", tmp_path / "copies"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
    )
    assert copies(tmp_path / "copies") == PROGRAMS
