import base64
import json

import onnx
import pytest
import sentencepiece
from keras_attn_runtime._commands.main import main
from onnx import helper

from tests.runtime.fake_model import build_model, metadata, train_tokenizer


def test_tokenizers_are_those_of_the_file(tokenizer_model, tmp_path, capsys):
    target = train_tokenizer(55, ["ein anderer Text", "noch ein Text"])
    properties = metadata(tokenizer_model)
    properties["keras_attn.target_tokenizer"] = base64.b64encode(target).decode()
    onnx.save(build_model(properties), tmp_path / "model.onnx")
    directory, settings = tmp_path / "made" / "tokenizers", tmp_path / "settings.json"
    options = ["--tokenizers", str(directory), "--settings", str(settings)]
    assert main(["extract", str(tmp_path / "model.onnx"), *options]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert sorted(path.name for path in directory.iterdir()) == ["source.spm", "target.spm"]
    assert (directory / "source.spm").read_bytes() == tokenizer_model
    processor = sentencepiece.SentencePieceProcessor(model_file=str(directory / "target.spm"))
    assert processor.decode(processor.encode("noch ein Text")) == "noch ein Text"
    assert json.loads(settings.read_text())["target"]["end_token_id"] == 2


def test_shared_tokenizer_is_written_for_both_sides(model_path, tokenizer_model, tmp_path):
    (tmp_path / "source.spm").write_bytes(b"of an earlier export")
    assert main(["extract", str(model_path), "--tokenizers", str(tmp_path)]) == 0
    for side in ("source", "target"):
        assert (tmp_path / f"{side}.spm").read_bytes() == tokenizer_model
    assert len(list(tmp_path.iterdir())) == 2


def test_directories_of_exports_are_read(model_path, tokenizer_model, tmp_path):
    for name in ("model.onnx", "start.onnx"):
        directory = tmp_path / name.partition(".")[0]
        directory.mkdir()
        (directory / name).write_bytes(model_path.read_bytes())
        assert main(["extract", str(directory), "--tokenizers", str(directory)]) == 0
        assert (directory / "target.spm").read_bytes() == tokenizer_model


def test_the_model_is_not_replaced(write_model, tmp_path, capsys):
    path = write_model({})
    before, link = path.read_bytes(), path.with_name("settings.json")
    link.symlink_to(path)
    for settings in (path, link):
        assert main(["extract", str(path), "--settings", str(settings)]) == 1
        assert "Expected an output that is not read" in capsys.readouterr().err
    same = ["--tokenizers", str(tmp_path), "--settings", str(tmp_path / "." / "source.spm")]
    assert main(["extract", str(path), *same]) == 1
    assert "not the path of a tokenizer" in capsys.readouterr().err
    assert path.read_bytes() == before and not (tmp_path / "source.spm").exists()


def test_files_without_tokenizers_are_refused(write_model, tmp_path, capsys):
    nothing = {"keras_attn.source_tokenizer": None}
    path = write_model(nothing, source__tokenizer="none", target__tokenizer="none")
    assert main(["extract", str(path), "--tokenizers", str(tmp_path / "out")]) == 1
    output, messages = capsys.readouterr()
    assert output == "" and messages.startswith("Nothing was written. Expected a file with tok")
    assert not (tmp_path / "out").exists()


def test_damaged_metadata_is_refused(tokenizer_model, tmp_path, capsys):
    model = build_model(metadata(tokenizer_model) | {"keras_attn.checksum": "0" * 64})
    onnx.save(model, tmp_path / "model.onnx")
    assert main(["extract", str(tmp_path / "model.onnx"), "--tokenizers", str(tmp_path)]) == 1
    assert "metadata with the checksum" in capsys.readouterr().err


@pytest.mark.parametrize("case", ["foreign", "text", "missing", "directory"])
def test_other_files_are_refused(model_path, tmp_path, capsys, case):
    path = tmp_path / "file"
    if case == "foreign":
        model = onnx.load(model_path)
        del model.metadata_props[:]
        helper.set_model_props(model, {"author": "a"})
        onnx.save(model, path)
    elif case == "text":
        path.write_text("some text")
    elif case == "directory":
        path.mkdir()
    assert main(["extract", str(path), "--tokenizers", str(tmp_path / "out")]) == 1
    messages = capsys.readouterr().err
    assert messages.startswith("Nothing was written. ") and messages.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_nothing_to_write_is_a_wrong_command_line(model_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["extract", str(model_path)])
    assert end.value.code == 2
    assert "--tokenizers" in capsys.readouterr().err
