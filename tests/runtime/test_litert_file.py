"""LiteRT files that are missing, damaged, of other programs, or changed after the export."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile

import pytest
from keras_attn_runtime import ModelFileError, StreamingTranslator, Translator
from keras_attn_runtime._commands.main import main
from keras_attn_runtime._file_format.litert_container import LiteRTContainer

from tests.runtime.conftest import RUNTIME
from tests.runtime.fake_litert import (
    ENDLESS_ID,
    archive_bytes,
    archive_entries,
    litert_bytes,
    model_bytes,
)
from tests.runtime.fake_model import metadata, with_checksum

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path."""

    def write(content, name="model.tflite"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.fixture
def never_run(monkeypatch):
    """Fails the test if LiteRT gets a model."""
    interpreter = "ai_edge_litert.interpreter.Interpreter"
    monkeypatch.setattr(interpreter, lambda *_, **__: pytest.fail("it reached the interpreter"))


def refused(path, capsys, monkeypatch):
    """Returns the message of the command `translate`, which must be one line."""
    with open(os.devnull) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["translate", str(path), "--threads", "1"]) == 1
    output, messages = capsys.readouterr()
    assert output == "" and messages.count("\n") == 1 and messages.startswith("error: ")
    return messages


def test_metadata_are_those_of_an_onnx_file(tokenizer_model, write):
    card = json.dumps({"license": "MIT"})
    properties = with_checksum(metadata(tokenizer_model)) | {"keras_attn.card": card}
    model = model_bytes()
    path = write(model + archive_bytes(archive_entries(model, properties)))
    container = LiteRTContainer.from_path(path)
    checksum = {"keras_attn.model_checksum": hashlib.sha256(model).hexdigest()}
    assert (container.metadata, container.model) == (properties | checksum, model)
    assert Translator(path, num_threads=1).settings.card == {"license": "MIT"}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("appended", [False, True])
def test_archive_may_be_compressed_and_appended_in_place(
    tokenizer_model, write, compression, appended
):
    """The offsets in an archive count from its own beginning, or from that of the file."""
    model = model_bytes()
    entries = archive_entries(model, with_checksum(metadata(tokenizer_model)))
    if appended:
        path = write(model)
        with zipfile.ZipFile(path, "a", compression) as archive:
            for name, value in entries.items():
                archive.writestr(name, value)
    else:
        path = write(model + archive_bytes(entries, compression))
    assert Translator(path, num_threads=1)(["some text"]) == ["some text"]


def test_file_is_recognized_by_its_bytes_or_its_name(tokenizer_model, write):
    path = write(litert_bytes(tokenizer_model), "model.bin")
    assert Translator(path, num_threads=1)(["some text"]) == ["some text"]


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.tflite"):
        Translator(tmp_path / "nothing.tflite")
    (tmp_path / "folder.tflite").mkdir()
    with pytest.raises(IsADirectoryError, match="folder.tflite"):
        Translator(tmp_path / "folder.tflite")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "Expected a LiteRT file. Received: .*model.tflite', which starts with b''"),
        (bytes(1000), r"which starts with b'.x00"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "an HDF5 file"),
        (archive_bytes({"a": b"b"}), "a zip archive"),
        (archive_bytes({"keras_attn.json": b"{}"}), "a zip archive"),
    ],
    ids=["empty", "zeros", "hdf5", "zip", "no model"],
)
def test_other_files_are_named(write, capsys, monkeypatch, never_run, content, message):
    with pytest.raises(ModelFileError, match=message):
        Translator(write(content))
    assert "Expected a LiteRT file" in refused(write(content), capsys, monkeypatch)


@pytest.mark.parametrize("archive", [b"", archive_bytes({"labels.txt": b"cat\ndog\n"})])
def test_file_of_another_program_is_named(write, capsys, monkeypatch, never_run, archive):
    message = refused(write(model_bytes() + archive), capsys, monkeypatch)
    assert "a TensorFlow Lite file without keras_attn.json" in message
    assert "keras-attn export litert RUN" in message
    assert "Run a model without a search with ai_edge_litert, or export it again" in message


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_truncated_file(tokenizer_model, write, capsys, monkeypatch, never_run, kept):
    content = litert_bytes(tokenizer_model)
    path = write(content[: int(kept * len(content))])
    assert "It is cut off, or another program wrote it" in refused(path, capsys, monkeypatch)


@pytest.mark.parametrize("place", [0, 4, 100, 5000, -1])
def test_flipped_bit_of_the_model_never_reaches_the_interpreter(
    tokenizer_model, write, capsys, monkeypatch, never_run, place
):
    size = len(model_bytes())
    content = bytearray(litert_bytes(tokenizer_model))
    content[place if place >= 0 else size - 1] ^= 1
    path = write(bytes(content))
    assert "Expected a model with the checksum" in refused(path, capsys, monkeypatch)
    for command in (["info"], ["extract", "--settings", str(path.with_suffix(".json"))]):
        assert main([command[0], str(path), *command[1:]]) == 1
        output, messages = capsys.readouterr()
        assert output == "" and messages.count("\n") == 1 and "the checksum" in messages


def test_changed_tokenizer_is_noticed_before_sentencepiece(tokenizer_model, write, never_run):
    model = model_bytes()
    entries = archive_entries(model, with_checksum(metadata(tokenizer_model)))
    changed = bytearray(tokenizer_model)
    changed[100] ^= 1
    path = write(model + archive_bytes({**entries, "source.spm": bytes(changed)}))
    with pytest.raises(ModelFileError, match="Expected metadata with the checksum"):
        Translator(path)
    # In the archive, a checksum of each entry protects it too.
    content = litert_bytes(tokenizer_model)
    place = content.index(tokenizer_model) + 100
    path = write(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ModelFileError, match="Bad CRC-32 for file 'source.spm'"):
        Translator(path)


def test_file_that_was_changed_on_purpose(tokenizer_model, write):
    """Without their checksums, a model and metadata can be changed."""
    content = litert_bytes(tokenizer_model, with_model_checksum=False)
    assert Translator(write(content), num_threads=1)(["some text"]) == ["some text"]
    model = model_bytes()
    archive = archive_bytes(archive_entries(model, metadata(tokenizer_model), False))
    assert Translator(write(model + archive), num_threads=1)(["a"]) == ["a"]


@pytest.mark.parametrize(
    "entries, message",
    [
        ({"keras_attn.json": b"{"}, "readable metadata"),
        ({"keras_attn.json": b"[]"}, "not a JSON object of strings"),
        ({"keras_attn.json": b'{"keras_attn.format": 2}'}, "not a JSON object of strings"),
        ({"keras_attn.json": b"\xff"}, "readable metadata"),
        ({"keras_attn.json": b"{}"}, "Expected a file exported by keras_attn"),
        ({"keras_attn.json": b'{"keras_attn.format": "4"}'}, "keras_attn.format='4'.*newer"),
        ({"card.json": b"\xff"}, "readable metadata"),
        ({"card.json": b"[]"}, "settings"),
        ({"source.spm": None}, "checksum"),
        ({"target.tokenizer.json": b"{}"}, "checksum"),
    ],
)
def test_metadata_that_cannot_be_used(tokenizer_model, write, never_run, entries, message):
    model = model_bytes()
    found = archive_entries(model, with_checksum(metadata(tokenizer_model))) | entries
    found = {name: each for name, each in found.items() if each is not None}
    path = write(model + archive_bytes(found))
    with pytest.raises(ModelFileError, match=message):
        Translator(path)


def test_entry_of_enormous_size_is_not_read(tokenizer_model, write, never_run, monkeypatch):
    monkeypatch.setattr("keras_attn_runtime._file_format.litert_container.LARGEST_ENTRY", 10**6)
    model = model_bytes()
    entries = archive_entries(model, with_checksum(metadata(tokenizer_model)))
    bomb = archive_bytes({**entries, "card.json": bytes(10**6 + 1)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 10**6
    with pytest.raises(ModelFileError, match="card.json has 1000001 bytes"):
        Translator(write(model + bomb))


def test_other_inputs_and_signatures_are_named(tokenizer_model, write):
    path = write(litert_bytes(tokenizer_model, search__inputs=["max_length"]))
    with pytest.raises(ModelFileError, match=r"with inputs \['source_ids', 'max_length'\]"):
        Translator(path)
    model = model_bytes().replace(b"serving_default\0", b"serving_another\0")
    archive = archive_bytes(archive_entries(model, with_checksum(metadata(tokenizer_model))))
    with pytest.raises(ModelFileError, match="signatures .'serving_default'.*'serving_another'"):
        Translator(write(model + archive))


def test_a_stream_and_triton_need_other_exports(tokenizer_model, write, tmp_path, capsys):
    path = write(litert_bytes(tokenizer_model))
    with pytest.raises(ModelFileError, match="'start', 'step', 'finish'.*Use Translator"):
        StreamingTranslator(path)
    assert main(["triton", str(path), str(tmp_path / "models")]) == 1
    assert "Triton has no backend for LiteRT" in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


# ai-edge-litert itself.


def test_without_litert_the_extra_is_named(tokenizer_model, write, capsys, monkeypatch):
    path = write(litert_bytes(tokenizer_model))
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert "pip install './export[litert]'" in refused(path, capsys, monkeypatch)
    assert main(["info", str(path)]) == 0


@pytest.mark.parametrize("version", ["1.4.0", "2.3.0", "10.0"])
def test_old_litert_is_named(tokenizer_model, write, capsys, monkeypatch, version):
    path = write(litert_bytes(tokenizer_model))
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    if version != "1.4.0":
        assert Translator(path, num_threads=1)(["a tree"]) == ["a tree"]
        return
    message = refused(path, capsys, monkeypatch)
    assert f"Received: {version}. Upgrade it: `pip install" in message


def test_neither_onnxruntime_nor_tensorflow_is_imported(tokenizer_model, write):
    path = write(litert_bytes(tokenizer_model))
    code = (
        "import sys\n"
        "for name in ('onnxruntime', 'keras', 'tensorflow'): sys.modules[name] = None\n"
        "from keras_attn_runtime._commands.main import run; run()\n"
    )
    for command, expected in ((["translate"], "some text\n"), (["info"], "kind: a LiteRT file")):
        process = subprocess.run(
            [sys.executable, "-c", code, *command, path],
            input="some text\n",
            env=dict(os.environ, PYTHONPATH=str(RUNTIME)),
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0 and process.stdout.startswith(expected), process.stderr


# Commands.


def test_info_describes_the_file(tokenizer_model, write, capsys):
    path = write(litert_bytes(tokenizer_model, "copy-batch-4", search__beam_width=5))
    assert main(["info", str(path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "a LiteRT file exported by keras-attn"
    inputs = {each["name"]: each for each in found["signatures"]["serving_default"]["inputs"]}
    assert inputs["source_ids"]["shape"] == [4, None] and inputs["seeds"]["dtype"] == "int32"
    assert found["settings"]["search"]["beam_width"] == 5
    assert found["versions"] == {"keras_attn": "0.1.0"} and found["format"] == 2
    expected = {"bytes": len(tokenizer_model), "parse_special_tokens": False}
    assert found["tokenizers"] == {"source": expected}
    assert found["checksum"] == "matches the file" and "metadata" not in found
    assert main(["info", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "      source_ids: int32 (4, ?)" in lines and "    beam_width: 5" in lines


def test_extract_writes_the_tokenizers(tokenizer_model, write, tmp_path, capsys):
    path = write(litert_bytes(tokenizer_model))
    settings = tmp_path / "settings.json"
    command = ["extract", str(path), "--tokenizers", str(tmp_path / "t"), "--settings"]
    assert main([*command, str(settings)]) == 0
    assert (tmp_path / "t" / "source.spm").read_bytes() == tokenizer_model
    assert (tmp_path / "t" / "target.spm").read_bytes() == tokenizer_model
    assert json.loads(settings.read_text())["search"]["beam_width"] == 4


def test_command_translates_lines(start_command, tokenizer_model, write):
    path = write(litert_bytes(tokenizer_model))
    lines = "two dogs\n\nsome text\n" * 3
    process = start_command(path, "--threads", "1", "--format", "jsonl", "--num-hypotheses", "2")
    output, _ = process.communicate(lines.encode())
    texts = [json.loads(line)["text"] for line in output.decode().splitlines()]
    assert (texts, process.returncode) == (lines.split("\n")[:-1], 0)


def test_command_ends_at_its_timeout(start_command, tokenizer_model, write):
    """Although the search is endless."""
    path = write(litert_bytes(tokenizer_model, source__end_token_id=ENDLESS_ID))
    process = start_command(path, "--threads", "1", "--timeout", "2")
    output, messages = process.communicate(b"two dogs\n", timeout=60)
    assert (output, process.returncode) == (b"", 124)
    assert messages.decode().splitlines()[-1].endswith("not finished within --timeout=2")
