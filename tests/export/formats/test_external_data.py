"""Models with weights in a separate file, as required for more than 2 GB."""

import shutil

import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator

from keras_attn.export import ExportError, export_onnx, export_onnx_steps, export_onnx_text
from keras_attn.export._formats.external_data import variables_size
from keras_attn.export._passes.graph import nested_graphs
from tests.export.conversion_steps import replace_conversion
from tests.export.small_translator import SOURCE


@pytest.fixture(scope="module")
def directory(translator, tokenizers, onnx_model, tmp_path_factory):
    """Returns an export that replaced an earlier export without external data."""
    path = tmp_path_factory.mktemp("external") / "translator"
    path.write_bytes(b"\x08 an earlier export")
    with pytest.MonkeyPatch.context() as patch:
        # The conversion is slow and has its own tests.
        replace_conversion(patch, "export_onnx", onnx_model)
        patch.setattr("keras_attn.export._formats.external_data._SMALL", 200)
        export_onnx(translator, path, *tokenizers, external_data=True)
    return path


def test_the_weights_are_in_the_second_file(directory, exported):
    assert [file.name for file in directory.parent.iterdir()] == ["translator"]
    assert sorted(file.name for file in directory.iterdir()) == ["model.onnx", "model.weights"]
    alone = onnx.load(directory / "model.onnx", load_external_data=False)
    tensors = [tensor for graph in nested_graphs(alone.graph) for tensor in graph.initializer]
    outside = [tensor for tensor in tensors if tensor.external_data]
    assert len(outside) > 10
    assert max(len(tensor.raw_data) for tensor in tensors) < 200


def test_translates_as_the_same_model_in_one_file(directory, exported):
    expected = Translator(exported[0], num_threads=1).translate(SOURCE, num_hypotheses=2)
    for path in (directory, directory / "model.onnx"):
        assert Translator(path, num_threads=1).translate(SOURCE, num_hypotheses=2) == expected


@pytest.mark.parametrize("change", ["one bit", "cut off", "missing"])
def test_weights_that_do_not_belong_to_the_model_are_refused(directory, tmp_path, change):
    path = shutil.copytree(directory, tmp_path / "translator") / "model.weights"
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content[: len(content) // 2] if change == "cut off" else content)
    if change == "missing":
        path.unlink()
    with pytest.raises(ModelFileError, match="cannot load|weights with the checksum"):
        Translator(path.parent)


def test_more_than_2_gb_are_refused_where_one_file_is_needed(
    translator, tokenizers, tmp_path, monkeypatch
):
    monkeypatch.setattr("keras_attn.export._formats.external_data.LIMIT", 1000)
    for export in (export_onnx_steps, export_onnx_text):
        with pytest.raises(ExportError, match="at most 1,000 bytes.*Use `export_onnx`"):
            export(translator, tmp_path / "translator", *tokenizers)
    assert not list(tmp_path.iterdir())


def test_a_directory_in_the_place_of_a_file_is_refused_before_the_work(translator, tmp_path):
    with pytest.raises(FileExistsError, match="name of a file"):
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr("keras_attn.export._formats.export_onnx.trace")
            export_onnx(translator, tmp_path)


@pytest.mark.slow
def test_more_than_2_gb_are_written_so_unasked(translator, onnx_model, tmp_path, monkeypatch):
    replace_conversion(monkeypatch, "export_onnx", onnx_model)
    monkeypatch.setattr("keras_attn.export._formats.onnx_file.LIMIT", 1000)
    for _ in range(2):  # the second replaces the first
        export_onnx(translator, tmp_path / "translator")
        assert (tmp_path / "translator" / "model.weights").is_file()
    (tmp_path / "translator" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="other content"):
        export_onnx(translator, tmp_path / "translator")


@pytest.mark.slow
def test_the_weights_decide_what_is_written_at_every_precision(
    translator, onnx_model, tmp_path, monkeypatch
):
    replace_conversion(monkeypatch, "export_onnx", onnx_model)
    size = variables_size(translator.weights)
    monkeypatch.setattr("keras_attn.export._formats.onnx_file.LIMIT", size - 1)
    for precision in ("float32", "int8", "int4"):  # the other files are smaller
        export_onnx(translator, tmp_path / "translator", precision=precision)
        assert (tmp_path / "translator" / "model.weights").is_file()
