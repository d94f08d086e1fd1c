"""Exports a small translator once for all tests."""

import onnx
import pytest

from keras_attn.export import export_onnx
from keras_attn.text import SentencePieceTokenizer
from tests.export.conversion_steps import record_conversions
from tests.export.small_translator import SOURCE, TARGET, make_translator


def _tokenizer(directory, name, lines, size):
    path = directory / name
    path.write_text("\n".join(lines * 5), encoding="utf-8")
    return SentencePieceTokenizer.train(path, size, "char")


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("text")
    return (
        _tokenizer(directory, "source.txt", SOURCE, 45),
        _tokenizer(directory, "target.txt", TARGET, 46),
    )


@pytest.fixture(scope="session")
def translator(tokenizers):
    return make_translator(vocabulary_sizes=[each.vocabulary_size for each in tokenizers])


@pytest.fixture(scope="session")
def conversions():
    """Returns a list with the converted model of `exported`, before passes and checks."""
    return []


@pytest.fixture(scope="session")
def exported(translator, tokenizers, tmp_path_factory, conversions):
    """Returns the exported file and the report of the export."""
    path = tmp_path_factory.mktemp("onnx") / "translator.onnx"
    with pytest.MonkeyPatch.context() as monkeypatch:
        recorded = record_conversions(monkeypatch, "export_onnx")
        report = export_onnx(translator, path, *tokenizers, parity_sentences=SOURCE)
    conversions += recorded
    return path, report


@pytest.fixture(scope="session")
def onnx_model(exported):
    return onnx.load(exported[0])
