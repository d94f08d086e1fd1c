"""Invalid model files: missing, damaged, or of another format or program."""

import base64
import os

import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator
from keras_attn_runtime._engines import create_sessions
from keras_attn_runtime._engines.create_session import create_session
from keras_attn_runtime._file_format import file_checksum
from keras_attn_runtime._file_format.file_checksum import verify_file_checksum

from tests.runtime.fake_model import build_model, metadata, with_checksum, with_file_checksum


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.onnx"):
        Translator(tmp_path / "nothing.onnx")


def test_folder(tmp_path):
    with pytest.raises(IsADirectoryError, match="Give an ONNX file"):
        Translator(tmp_path)
    (tmp_path / "start.onnx").touch()
    with pytest.raises(IsADirectoryError, match="StreamingTranslator"):
        Translator(tmp_path)


@pytest.mark.parametrize("content", [b"", b"some text\n", bytes(1000)])
def test_file_that_is_no_model(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="cannot load|exported by keras_attn"):
        Translator(path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_truncated_file(model_path, tmp_path, kept):
    content = model_path.read_bytes()
    path = tmp_path / "model.onnx"
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ModelFileError):
        Translator(path)


def test_model_from_elsewhere(write_model):
    nothing = {key: None for key in metadata(b"")}
    with pytest.raises(ModelFileError, match="exported by keras_attn"):
        Translator(write_model(nothing))


@pytest.mark.parametrize(
    "properties, message",
    [
        ({"keras_attn.format": "4"}, "format 1, 2 or 3.*keras_attn.format='4'.*newer"),
        ({"keras_attn.settings": None}, "settings"),
        ({"keras_attn.settings": "{"}, "settings"),
        ({"keras_attn.settings": "[]"}, "settings"),
        ({"keras_attn.settings": '{"beam_width": 4}'}, "settings"),
        ({"keras_attn.settings": '{"beam_width": 4}', "keras_attn.format": "1"}, "settings"),
        ({"keras_attn.card": "[]"}, "settings"),
        ({"keras_attn.settings": "[" * 100_000}, "settings"),
        ({"keras_attn.source_tokenizer": "***"}, "tokenizer"),
        ({"keras_attn.source_tokenizer": ""}, "tokenizer"),
        ({"keras_attn.target_tokenizer": base64.b64encode(b"no model").decode()}, "tokenizer"),
        ({"keras_attn.checksum": "0" * 64}, "checksum"),
    ],
)
def test_metadata_that_cannot_be_used(write_model, properties, message):
    with pytest.raises(ModelFileError, match=message):
        Translator(write_model(properties))


@pytest.mark.parametrize(
    "setting, value",
    [
        ("search__max_length", "100"),
        ("search__max_length", -1),
        ("search__max_length", 2**31),
        ("search__length_penalty", [1.0]),
        ("search__length_penalty", float("nan")),
        ("search__length_penalty", -1.0),
        ("search__num_hypotheses", 0),
        ("search__beam_width", True),
        ("search__inputs", ["max_length", 1]),
        ("target__end_token_id", None),  # it ends scored translations
        ("target__end_token_id", 64),
        ("source__end_token_id", 64),
        ("source__pad_token_id", -1),
        ("source__add_start", True),  # without a start id
        ("source__vocabulary_size", 2**31),
        ("source__vocabulary_size", 20),  # fewer ids than the tokenizer
        ("kind", "forecast"),
        ("inputs", {"source_ids": {"kind": "ids", "dtype": "int32", "shape": [True]}}),
        ("versions", "1.0"),
    ],
)
def test_settings_that_cannot_be_used(write_model, setting, value):
    name = {"source__add_start": "source.start_token_id", "inputs": "shape"}
    name = name.get(setting, setting.rpartition("__")[2])
    with pytest.raises(ModelFileError, match=name):
        Translator(write_model(**{setting: value}))


def test_other_inputs_and_outputs(tmp_path, tokenizer_model):
    model = build_model(metadata(tokenizer_model))
    del model.graph.output[2]
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ModelFileError, match="Expected a file with inputs"):
        Translator(tmp_path / "model.onnx")


def test_outputs_that_do_not_fit(write_model):
    translator = Translator(write_model(search__num_hypotheses=3))  # the graph returns two
    with pytest.raises(ModelFileError, match="num_hypotheses"):
        translator(["some text"])


def test_checksum_is_accepted(tmp_path, tokenizer_model):
    onnx.save(build_model(with_checksum(metadata(tokenizer_model))), tmp_path / "model.onnx")
    assert Translator(tmp_path / "model.onnx")(["some text"]) == ["some text"]


def test_one_changed_letter_in_the_tokenizer_is_noticed(tmp_path, tokenizer_model):
    properties = with_checksum(metadata(tokenizer_model))
    text = properties["keras_attn.source_tokenizer"]
    position = len(text) // 2
    other = "A" if text[position] != "A" else "B"
    properties["keras_attn.source_tokenizer"] = text[:position] + other + text[position + 1 :]
    onnx.save(build_model(properties), tmp_path / "model.onnx")
    with pytest.raises(ModelFileError, match="checksum"):
        Translator(tmp_path / "model.onnx")


@pytest.fixture
def checked_content(tokenizer_model):
    """Returns the bytes of a file with both checksums."""
    model = build_model(with_checksum(metadata(tokenizer_model)))
    return with_file_checksum(model.SerializeToString())


def test_checksum_of_the_file_is_accepted(tmp_path, checked_content):
    path = tmp_path / "model.onnx"
    path.write_bytes(checked_content)
    assert Translator(path)(["some text"]) == ["some text"]
    # Other tools can read and write the file without changing it.
    onnx.save(onnx.load(path), path)
    assert path.read_bytes() == checked_content


@pytest.mark.parametrize("place", [0.0, 0.2, 0.9, 1.0])
def test_one_flipped_bit_is_noticed_before_anything_is_loaded(
    tmp_path, checked_content, place, monkeypatch
):
    content = bytearray(checked_content)
    content[int(place * (len(content) - 1))] ^= 1
    (tmp_path / "model.onnx").write_bytes(content)
    monkeypatch.setattr("onnxruntime.InferenceSession", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(ModelFileError, match="damaged, or was changed after the export"):
        Translator(tmp_path / "model.onnx")


def test_file_that_was_changed_on_purpose(tmp_path, checked_content):
    path = tmp_path / "model.onnx"
    path.write_bytes(checked_content)
    model = onnx.load(path)
    model.producer_name = "another tool"
    onnx.save(model, path)
    with pytest.raises(ModelFileError, match="remove 'keras_attn.file_checksum'"):
        Translator(path)
    del model.metadata_props[-1]
    onnx.save(model, path)
    assert Translator(path)(["some text"]) == ["some text"]


def test_file_that_becomes_shorter_while_it_is_read(monkeypatch, tmp_path, checked_content):
    path = tmp_path / "model.onnx"
    path.write_bytes(checked_content)
    monkeypatch.setattr(file_checksum.hashlib, "sha256", lambda: Shortening(path))
    with pytest.raises(ModelFileError, match="changed after the export"):
        verify_file_checksum(path)


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("replacements", [1, 5])
def test_file_replaced_while_loading_is_loaded_again(
    monkeypatch, model_path, tmp_path, num_workers, replacements
):
    """A deployment replaces the file with a new one."""
    path, left = tmp_path / "model.onnx", [replacements]
    path.write_bytes(model_path.read_bytes())

    def create_and_replace(loaded, *settings, **options):
        session = create_session(loaded, *settings, **options)
        if loaded == path and left[0]:
            left[0] -= 1
            (tmp_path / "new.onnx").write_bytes(model_path.read_bytes())
            (tmp_path / "new.onnx").replace(path)
        return session

    monkeypatch.setattr(create_sessions, "create_session", create_and_replace)
    loads_once = num_workers == 1 or create_sessions.can_share_weights()
    if replacements == 5 and loads_once:
        with pytest.raises(ModelFileError, match="model.onnx', which was replaced.*5 times"):
            Translator(path, num_workers=num_workers)
    assert Translator(path, num_workers=num_workers)(["a"]) == ["a"]
    assert left == [0]


class Shortening:
    """A checksum that truncates the file while it is computed."""

    def __init__(self, path):
        os.truncate(path, 10)

    def update(self, content):
        pass

    def hexdigest(self):
        return "that of a shorter file"
