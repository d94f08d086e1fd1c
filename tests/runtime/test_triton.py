import hashlib
import os

import onnx
import pytest
from keras_attn_runtime._commands import main as program
from keras_attn_runtime._commands.triton import write_repository
from keras_attn_runtime._files import working_directory
from onnx import helper

from tests.export.small_translator import session


def main(arguments):
    return program.main(["triton", *arguments])


def test_triton_reads_what_the_file_says(model_path, tmp_path):
    text_format = pytest.importorskip("google.protobuf.text_format")
    messages = pytest.importorskip(
        "tritonclient.grpc.model_config_pb2", reason="needs keras-attn[triton]"
    )
    directory = write_repository(model_path, tmp_path / "models", "en-de")
    text = (directory / "config.pbtxt").read_text(encoding="utf-8")
    # Rejects unknown fields and values.
    config = text_format.Parse(text, messages.ModelConfig())
    assert (config.name, config.backend, config.max_batch_size) == ("en-de", "onnxruntime", 0)
    file = session(directory / "1" / "model.onnx")
    kinds = {"tensor(int32)": messages.TYPE_INT32, "tensor(float)": messages.TYPE_FP32}
    for written, values in ((config.input, file.get_inputs()), (config.output, file.get_outputs())):
        assert [each.name for each in written] == [each.name for each in values]
        for each, value in zip(written, values, strict=True):
            assert each.data_type == kinds[value.type]
            fixed = [size for size in each.dims if size != -1]
            assert fixed == ([s for s in value.shape if isinstance(s, int)] if value.shape else [1])
            assert len(each.dims) == max(1, len(value.shape))


def test_the_configuration_in_full(model_path, tmp_path):
    directory = write_repository(model_path, tmp_path / "models", "en-de")
    assert (
        (directory / "config.pbtxt").read_text(encoding="utf-8")
        == """\
name: "en-de"
backend: "onnxruntime"
max_batch_size: 0
input { name: "source_ids" data_type: TYPE_INT32 dims: [-1, -1] }
input { name: "max_length" data_type: TYPE_INT32 dims: [1] }
input { name: "length_penalty" data_type: TYPE_FP32 dims: [1] }
output { name: "token_ids" data_type: TYPE_INT32 dims: [-1, 2, -1] }
output { name: "lengths" data_type: TYPE_INT32 dims: [-1, 2] }
output { name: "scores" data_type: TYPE_FP32 dims: [-1, 2] }
output { name: "log_probs" data_type: TYPE_FP32 dims: [-1, 2] }
output { name: "alignments" data_type: TYPE_FP32 dims: [-1, 2, -1, -1] }
"""
    )


def test_the_command_writes_a_repository_once(model_path, tmp_path, capsys):
    repository = tmp_path / "models"
    assert main([str(model_path), str(repository)]) == 0
    files = sorted(path.relative_to(repository).as_posix() for path in repository.rglob("*.*"))
    assert files == ["model/1/model.onnx", "model/config.pbtxt"]
    assert (repository / "model/1/model.onnx").read_bytes() == model_path.read_bytes()
    assert main([str(model_path), str(repository)]) == 1
    assert "which exists" in capsys.readouterr().err


def test_a_server_never_sees_half_a_model(model_path, tmp_path, monkeypatch):
    repository, seen = tmp_path / "models", []
    write_repository(model_path, repository, "first")

    def copy(file, copy):
        seen.append(sorted(path.name for path in repository.iterdir()))
        raise OSError("no space left")

    monkeypatch.setattr("shutil.copyfile", copy)
    with pytest.raises(OSError, match="no space"):
        write_repository(model_path, repository, "second")
    assert seen == [["first"]] and [path.name for path in tmp_path.iterdir()] == ["models"]


def test_full_disk_is_one_line_and_leaves_nothing(model_path, tmp_path, capsys):
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert main([str(model_path), str(tmp_path / "models")]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = capsys.readouterr().err
    assert message.startswith("Nothing was written.") and "too large" in message
    assert message.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed(model_path, tmp_path):
    """Includes files of a process with the same id, as in containers, but not of a running one."""
    killed, alive = (tmp_path / f".partial-{each}-en-de" for each in (os.getpid(), "abcdefgh"))
    (killed / "1").mkdir(parents=True)
    alive.mkdir()
    lock = working_directory._lock(alive)
    try:
        write_repository(model_path, tmp_path / "models", "en-de")
    finally:
        os.close(lock)
    assert {path.name for path in tmp_path.iterdir()} == {"models", alive.name}


def test_name_of_a_model_can_be_long(model_path, tmp_path):
    name = "m" * 250
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr("shutil.copyfile", lambda *_: (_ for _ in ()).throw(OSError("full")))
        patch.setattr("shutil.rmtree", lambda *_, **__: None)  # simulates a killed process
        write_repository(model_path, tmp_path / "models", name)
    assert len(list(tmp_path.iterdir())) == 1
    write_repository(model_path, tmp_path / "models", name)
    assert [path.name for path in tmp_path.iterdir()] == ["models"]
    assert [path.name for path in (tmp_path / "models").iterdir()] == [name]


def test_where_nothing_can_be_moved_from_it_is_written_inside(model_path, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    directory = write_repository(model_path, tmp_path / "models", "en-de")
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["en-de"]
    assert (directory / "config.pbtxt").is_file()


def test_weights_outside_of_the_file_are_copied_with_it(model_path, tmp_path):
    model = onnx.load(model_path)
    (tmp_path / "en-de").mkdir()
    (tmp_path / "en-de/model.weights").write_bytes(b"weights")
    checksum = hashlib.sha256(b"weights").hexdigest()
    helper.set_model_props(model, properties(model) | {"keras_attn.weights_checksum": checksum})
    onnx.save(model, tmp_path / "en-de/model.onnx")
    for given in (tmp_path / "en-de", tmp_path / "en-de/model.onnx"):
        directory = write_repository(given, tmp_path / "models", f"of-{given.stem}")
        assert_copied(tmp_path / "en-de", directory)
    onnx.save(onnx.load(model_path), tmp_path / "en-de/model.onnx")  # the checksum was removed
    assert_copied(
        tmp_path / "en-de", write_repository(tmp_path / "en-de", tmp_path / "models", "unchecked")
    )


def assert_copied(directory, model):
    for name in ("model.onnx", "model.weights"):
        assert (model / "1" / name).read_bytes() == (directory / name).read_bytes()


def properties(model):
    return {entry.key: entry.value for entry in model.metadata_props}


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [(None, "../other", "name='../other'"), (b"no model", "other", "cannot load")],
)
def test_refuses_other_names_and_files(model_path, tmp_path, capsys, content, name, message):
    path = tmp_path / "file.onnx"
    path.write_bytes(model_path.read_bytes() if content is None else content)
    assert main([str(path), str(tmp_path / "models"), "--name", name]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]
