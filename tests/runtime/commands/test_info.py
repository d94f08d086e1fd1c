"""Tests `keras-attn-runtime info` on files with known content."""

import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import pytest
from keras_attn_runtime._commands.main import main
from onnx import TensorProto, helper

from tests.runtime.conftest import RUNTIME
from tests.runtime.fake_model import build_model, metadata, with_checksum, with_file_checksum

RUN = "from keras_attn_runtime._commands.main import run; run()"


def info(path, capsys):
    """Returns the JSON that the command prints, as a dict."""
    assert main(["info", str(path), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_exported_file_is_described(tokenizer_model, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    properties = with_checksum(metadata(tokenizer_model, search__beam_width=5))
    model = build_model(properties, prefix=True)
    path.write_bytes(with_file_checksum(model.SerializeToString()))
    found = info(path, capsys)
    assert found["kind"] == "an ONNX file exported by keras-attn"
    source, *_ = found["inputs"]
    assert source == {
        "name": "source_ids",
        "dtype": "int32",
        "shape": ["batch", "source_length"],
        "optional": False,
    }
    assert [each["name"] for each in found["inputs"]][-1] == "prefix_ids"
    assert found["outputs"][2]["name"] == "scores" and found["outputs"][2]["dtype"] == "float32"
    assert found["settings"]["search"]["beam_width"] == 5 and "versions" not in found["settings"]
    assert found["versions"] == {"keras_attn": "0.1.0"}
    options = {"bytes": len(tokenizer_model), "parse_special_tokens": False}
    assert found["tokenizers"] == {"source": options}
    assert (found["checksum"], found["opsets"]) == ("matches the file", {"ai.onnx": 18})


@pytest.mark.parametrize(
    ("number", "options", "shown"),
    [
        (3, {"tokenizer": "tokenizers"}, {"parse_special_tokens": False}),
        (2, {"tokenizer": "tokenizers"}, {"parse_special_tokens": True}),
        (
            3,
            {"added_tokens": [{"content": "<a>", "id": 5}], "space_token_id": 4}
            | {"clean_up_spaces": True, "parse_special_tokens": True},
            {"parse_special_tokens": True, "added_tokens": 1}
            | {"space_token_id": 4, "clean_up_spaces": True},
        ),
    ],
)
def test_options_of_the_tokenizer_are_described(
    tokenizer_model, tmp_path, capsys, number, options, shown
):
    settings = {f"source__{name}": value for name, value in options.items()}
    properties = metadata(tokenizer_model, **settings) | {"keras_attn.format": str(number)}
    path = tmp_path / "model.onnx"
    content = build_model(with_checksum(properties)).SerializeToString()
    path.write_bytes(with_file_checksum(content))
    found = info(path, capsys)["tokenizers"]["source"]
    assert found.pop("bytes") == len(tokenizer_model) and found == shown


def test_text_has_a_line_for_each_tensor_and_setting(model_path, capsys):
    assert main(["info", str(model_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "kind: an ONNX file exported by keras-attn"
    assert "  source_ids: int32 (batch, source_length)" in lines
    assert "  max_length: int32 ()" in lines
    assert "    beam_width: 4" in lines


def test_files_of_keras_attn_are_described_without_onnxruntime(model_path):
    program = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from keras_attn_runtime._commands.main import main\n"
        "sys.exit(main(['info', sys.argv[1]]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, model_path],
        env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")


def test_a_damaged_file_is_one_line(tokenizer_model, tmp_path, capsys):
    content = with_file_checksum(build_model(metadata(tokenizer_model)).SerializeToString())
    path = tmp_path / "model.onnx"
    path.write_bytes(content.replace(b"max_length", b"min_length", 1))
    assert main(["info", str(path)]) == 1
    output, messages = capsys.readouterr()
    assert output == "" and messages.count("\n") == 1
    assert messages.startswith("error: Expected a file with the checksum")


def test_foreign_onnx_file_is_described(tmp_path, capsys):
    weights = helper.make_tensor("weights", TensorProto.INT8, [2, 3], bytes(6), raw=True)
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [3], np.ones(3, "<f4").tobytes(), True)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["rows", None, 3]),
            helper.make_tensor_value_info("scale", TensorProto.FLOAT, [3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [weights, scale],
    )
    model = helper.make_model(graph, producer_name="somebody", producer_version="7")
    model.opset_import[0].version = 19
    model.opset_import.append(helper.make_opsetid("com.example", 2))
    helper.set_model_props(model, {"author": "a", "long": "x" * 1000})
    onnx.save(model, tmp_path / "other.onnx")
    found = info(tmp_path / "other.onnx", capsys)
    assert found["kind"] == (
        "an ONNX file without keras-attn metadata, of another program or an older release"
    )
    x, optional = found["inputs"]
    assert x == {"name": "x", "dtype": "float16", "shape": ["rows", None, 3], "optional": False}
    assert optional["name"] == "scale" and optional["optional"]
    assert found["outputs"][0]["shape"] is None
    assert (found["precision"], found["weights"]) == ("int8", {"int8": 6, "float32": 3})
    assert found["opsets"] == {"ai.onnx": 19, "com.example": 2}
    assert found["producer"] == "somebody 7"
    assert found["metadata"]["author"] == "a" and len(found["metadata"]["long"]) < 300


def test_tflite_file_is_described(tmp_path, capsys):
    tf = pytest.importorskip("tensorflow")

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="features")])
    def call(features):
        return {"doubled": features * 2.0}

    converter = tf.lite.TFLiteConverter.from_concrete_functions([call.get_concrete_function()])
    (tmp_path / "model.tflite").write_bytes(converter.convert())
    found = info(tmp_path / "model.tflite", capsys)
    assert found["kind"] == "a TensorFlow Lite file"
    (signature,) = found["signatures"].values()
    (features,), (doubled,) = signature["inputs"], signature["outputs"]
    assert features["name"].endswith("features") and features["dtype"] == "float32"
    assert features["shape"] == doubled["shape"] == [None, 3]


def archive(*names):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name in names:
            file.writestr(name, "content")
    return content.getvalue()


@pytest.mark.parametrize(
    "content, kind",
    [
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file"),
        (archive("model/data.pkl"), "a PyTorch file"),
        (b"\x1f\x8b\x08" + bytes(100), "a gzip archive"),
        (archive("metadata.json", "config.json"), "a Keras file"),
    ],
    ids=["hdf5", "pytorch", "gzip", "keras"],
)
def test_other_files_are_named(tmp_path, capsys, content, kind):
    (tmp_path / "file").write_bytes(content)
    assert info(tmp_path / "file", capsys)["kind"].startswith(kind)


@pytest.mark.parametrize(
    "name, kind",
    [
        ("saved_model.pb", "a TensorFlow SavedModel"),
        ("run.json", "the directory of a training run"),
        ("model.keras", "a directory with model.keras"),
    ],
)
def test_other_directories_are_named(tmp_path, capsys, name, kind):
    (tmp_path / name).write_bytes(b"")
    assert info(tmp_path, capsys) == {"kind": kind}


def test_steps_are_described(model_path, tmp_path, capsys):
    (tmp_path / "start.onnx").write_bytes(model_path.read_bytes())
    found = info(tmp_path, capsys)
    assert found["kind"] == "an export of `onnx-steps`; this is its start.onnx"
    assert found["settings"]["search"]["beam_width"] == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x08",
        b"\x08\x09",
        b"some text",
        bytes(100),
        b"\x1c\0\0\0TFL3" + b"\xff" * 100,
    ],
    ids=["empty", "cut", "no graph", "text", "zeros", "tflite"],
)
def test_damaged_and_unknown_files_are_one_line(tmp_path, capsys, content):
    (tmp_path / "file").write_bytes(content)
    assert main(["info", str(tmp_path / "file")]) == 1
    output, messages = capsys.readouterr()
    assert output == "" and messages.startswith("error: Expected a") and messages.count("\n") == 1


@pytest.mark.parametrize("name", ["missing", ""])
def test_missing_file_and_empty_directory_are_one_line(tmp_path, capsys, name):
    assert main(["info", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.skipif(os.name == "nt", reason="closed pipes differ on Windows")
@pytest.mark.parametrize("output_format", ["text", "json"])
def test_info_ends_silently_if_the_reader_closed_the_pipe(tokenizer_model, tmp_path, output_format):
    path = tmp_path / "model.onnx"
    onnx.save(build_model(metadata(tokenizer_model)), path)
    command = [sys.executable, "-c", RUN, "info", str(path)]
    receiver, sender = os.pipe()
    os.close(receiver)
    with open(sender, "wb") as closed:
        process = subprocess.run(
            [*command, "--format", output_format],
            env={**os.environ, "PYTHONPATH": str(RUNTIME)},
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (process.returncode, process.stderr) == (1, "")
