"""A tokenizer of Hugging Face in the metadata of a file."""

import base64
import dataclasses
import sys

import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator
from keras_attn_runtime._file_format import Side
from keras_attn_runtime._text.json_tokenizer import JsonTokenizer

from tests.runtime.fake_model import build_model, metadata

SIDE = Side(300, pad_token_id=1, start_token_id=0, end_token_id=2, tokenizer="tokenizers")


def encoded(content):
    return base64.b64encode(content).decode()


def test_damaged_content_is_refused():
    pytest.importorskip("tokenizers")
    for content in (b"{", b"\xff", b"{}"):
        with pytest.raises(ModelFileError, match="cannot be read .* export it again"):
            JsonTokenizer(encoded(content), SIDE)


def test_texts_are_encoded_and_decoded():
    pytest.importorskip("tokenizers")
    from tests.text.json_tokenizers import LINES, byte_level

    tokenizer = JsonTokenizer(encoded(byte_level()), SIDE)
    for line in [*LINES, "☃ 漢字", " a "]:
        ids = tokenizer.encode(line)
        assert tokenizer.decode([0, *ids, 2, 1]) == line
        assert len(tokenizer.pieces(ids)) == len(ids)
    assert tokenizer.unknown_token_id == 1 and tokenizer.vocabulary_size == 300


@pytest.mark.parametrize("parse", [False, True])
def test_special_tokens_in_texts_are_those_of_keras(parse):
    tokenizers = pytest.importorskip("tokenizers")
    from keras_attn.text import HuggingFaceTokenizer
    from tests.text.json_tokenizers import byte_level
    from tests.text.test_hugging_face_tokenizer import TYPED

    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("a", -2.0), ("s", -2.0), ("?", -9.0)]
    unigram = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=5))
    unigram.add_special_tokens(["<s>", "<pad>", "</s>"])
    ids = {"pad_token_id": 1, "start_token_id": 0, "end_token_id": 2}
    side = dataclasses.replace(SIDE, parse_special_tokens=parse)
    for model in (byte_level(), unigram.to_str().encode()):
        tokenizer = JsonTokenizer(encoded(model), side)
        expected = HuggingFaceTokenizer(model, **ids, parse_special_tokens=parse)
        assert [tokenizer.encode(text) for text in TYPED] == expected.encode(TYPED)


def test_missing_package_is_reported(tokenizer_model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    names = {"source__tokenizer": "tokenizers", "target__tokenizer": "tokenizers"}
    onnx.save(build_model(metadata(tokenizer_model, **names)), tmp_path / "model.onnx")
    with pytest.raises(ImportError, match=r"pip install './export\[tokenizers\]'"):
        Translator(tmp_path / "model.onnx", num_threads=1)
