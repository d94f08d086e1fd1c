"""Errors about paths and options, before Keras is imported."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import contextlib, io, json, sys
from keras_attn_commands.main import main
results = []
for arguments in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code
    results.append((status, errors.getvalue()))
heavy = {"keras_attn", "keras", "tensorflow", "jax", "torch", "onnx", "onnxruntime"}
print(json.dumps([results, sorted(heavy & set(sys.modules))]))
"""

CONVERT = [
    (["missing", "RUN"], "Received: FOLDER='missing', which does not exist. .*hf download missing"),
    (["a/b/c", "RUN"], "Received: FOLDER='a/b/c', which does not exist. Check the path"),
    (["checkpoint/config.json", "RUN"], "a file. Pass its folder, 'checkpoint'"),
    (["model.keras", "RUN"], "a Keras file. Pass the folder that contains config.json"),
    (["run/model.keras", "RUN"], "already converted. Pass 'run' to `keras-attn export`"),
    (["run", "RUN"], "a run directory, which is already converted"),
    (["other", "RUN"], "Received: FOLDER='other', in which config.json is missing"),
    (["saved", "RUN"], "Received: FOLDER='saved', a TensorFlow SavedModel, which cannot"),
    (["checkpoint", "other"], "Received: RUN='other', a directory with other content"),
    (["checkpoint", "no/RUN"], "Received: RUN='no/RUN'. Create 'no' first"),
    (["checkpoint", "notes.txt"], "Received: RUN='notes.txt', a file with other content"),
    (["unknown", "RUN"], "one of .'marian', .*'bert'.*Received: model_type='bloom'. Models of"),
    (["other-class", "RUN"], "class MarianMTModel among .* Received: architectures=..MarianForC"),
    (["checkpoint", "RUN", "--config", "a.yml"], "Expected a checkpoint of OpenNMT-tf with --conf"),
    (
        ["exported", "exported"],
        "Expected RUN outside of FOLDER.*RUN='exported', the same",
    ),
    (["exported", "link"], "Received: RUN='link', the same as FOLDER='exported'"),
    (["link", "./checkpoint/../exported"], "exported', the same as FOLDER='link'"),
    (["linked-files", "exported"], "which contains a link target of FOLDER='linked-files'"),
    (["exported", "exported/RUN"], "RUN='exported/RUN', which is in FOLDER='exported'"),
    (["opennmt", "RUN", "--config", "a.yml"], "Received: --config a.yml, which does not exist"),
    (["opennmt", "RUN", "--source-vocabulary", "other"], "--source-vocabulary other, a directory"),
    (["opennmt", "RUN", "--model-type", "m.py"], "Received: --model-type m.py, which does not ex"),
    (["opennmt", "RUN", "--verify"], "a checkpoint of OpenNMT-tf. Omit --verify"),
]
EXPORT = [
    (["onnx", "missing", "a.onnx"], "Received: 'missing', which does not exist"),
    (
        ["onnx", "checkpoint", "a.onnx"],
        "with `keras-attn convert checkpoint RUN`, and pass RUN",
    ),
    (["onnx", "other", "a.onnx"], "Received: 'other', in which run.json is missing"),
    (["onnx", "saved", "a.onnx"], "Received: 'saved', a TensorFlow SavedModel"),
    (["onnx", "model.keras", "a.onnx"], "Received: 'model.keras', a Keras file"),
    (["onnx", "run/run.json", "a.onnx"], "a file. Pass its directory, 'run'"),
    (
        ["onnx", "untrained", "a.onnx"],
        "in which model.keras is missing. Wait for the end",
    ),
    (["onnx", "classifier", "a.onnx"], "of the kind 'generation'. Received: kind='classification'"),
    (["onnx-text", "series", "a.onnx"], "one of the formats .* for a forecaster"),
    (["onnx", "series", "a.onnx", "--precision", "int8"], "a forecaster. Received: --precision"),
    (["onnx", "run", "other"], "Received: OUT='other', a directory with other content"),
    (["onnx", "run", "notes.txt"], "Received: OUT='notes.txt', a file with other content"),
    (["litert", "run", "other"], "Received: OUT='other', a directory"),
    (["saved-model", "run", "notes.txt"], "Received: OUT='notes.txt', a file"),
    (["onnx", "run", "no/a.onnx"], "Received: OUT='no/a.onnx'. Create 'no' first"),
    (["onnx", "run", "run"], "Expected OUT outside of RUN.*Received: OUT='run', the same as RUN="),
    (["litert", "run", "run/model.keras"], "which is in RUN='run'"),
    (["onnx", "run", "run/a.onnx"], "which is in RUN='run'"),
    (
        ["litert", "run", "notes.txt", "--parity-sentences", "./notes.txt"],
        "the same as --parity-sentences=",
    ),
    (["transformers", "run", "link", "--original", "exported"], "the same as --original="),
    (
        ["onnx", "run", "a.onnx", "--parity-sentences", "no"],
        "Received: --parity-sentences no, which",
    ),
    (
        ["onnx", "run", "a.onnx", "--parity-inputs", "notes.txt"],
        "notes.txt .a file of another format",
    ),
    (["transformers", "run", "a", "--original", "notes.txt"], "--original notes.txt, a file"),
    (["onnx", "run", "a.onnx", "--search", "num_beams=4"], "Instead of num_beams, use beam_width"),
    (["onnx", "run", "a.onnx", "--search", "beam=4"], "Expected arguments of a search: beam_width"),
    (
        ["onnx", "run", "a.onnx", "--search-class", "GreedyDecoder", "--search", "top_k=4"],
        "of GreedyDecoder: .*Received: top_k. To use these arguments, pass SamplingDecoder",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a directory with paths of many kinds."""
    folder = tmp_path_factory.mktemp("paths")
    runs = {"run": "generation", "classifier": "classification", "series": "series"}
    for name, kind in {**runs, "untrained": "generation"}.items():
        (folder / name).mkdir()
        content = {"kind": kind, "model": "model.keras"}
        (folder / name / "run.json").write_text(json.dumps(content))
        if name != "untrained":
            (folder / name / "model.keras").write_bytes(b"content")
    for name in ("checkpoint/config.json", "other/file", "saved/saved_model.pb"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("{}")
    exported = ("config.json", "export.txt", "model.safetensors")
    for directory in ("exported", "linked-files"):
        (folder / directory).mkdir()
    for name in exported:
        (folder / "exported" / name).write_text("{}")
        (folder / "linked-files" / name).symlink_to(f"../exported/{name}")
    (folder / "link").symlink_to("exported")
    (folder / "opennmt").mkdir()
    (folder / "opennmt/ckpt-1.index").write_bytes(b"content")
    (folder / "notes.txt").write_text("notes")
    configs = {
        "unknown": {"model_type": "bloom", "architectures": ["BloomForCausalLM"]},
        "other-class": {"model_type": "marian", "architectures": ["MarianForCausalLM"]},
    }
    for name, config in configs.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config))
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        archive.writestr("metadata.json", "{}")
    return folder


def run_all(folder, command_lines):
    """Returns the exit status and the errors of each command line, and the heavy modules."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=folder,
        input=json.dumps(command_lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


@pytest.mark.parametrize("command, cases", [("convert", CONVERT), ("export", EXPORT)])
def test_errors_of_paths_and_options_import_no_backend(folder, command, cases):
    results, heavy = run_all(folder, [[command, *arguments] for arguments, _ in cases])
    assert heavy == []
    for (status, error), (arguments, pattern) in zip(results, cases, strict=True):
        assert status == 1, arguments
        pytest.raises(ValueError, match=pattern).matches(ValueError(error))
        assert error.startswith("Nothing was ") and error.count("\n") == 1
    assert not (folder / "RUN").exists() and not list(folder.glob("a*"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--indices", "0,x", "--addresses", "a:1"], "--indices: expected a number, received 'x'"),
        (["--workers", "two"], "--workers: expected a number, received 'two'"),
        (["--restarts", "x"], "--restarts: expected a number, received 'x'"),
        ([], "expected a Python program, received 'program.py', which is no file"),
    ],
)
def test_errors_of_launch_name_the_option(folder, arguments, message):
    ((status, error),), heavy = run_all(folder, [["launch", *arguments, "program.py"]])
    assert (status, heavy) == (2, []) and message in error
