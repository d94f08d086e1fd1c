"""A tokenizer of Hugging Face in an exported file."""

import pytest
from keras_attn_runtime import Translator

from keras_attn.export import export_onnx, export_saved_model
from keras_attn.text import HuggingFaceTokenizer
from tests.export.small_translator import make_translator
from tests.text.json_tokenizers import LINES, byte_level

pytest.importorskip("tokenizers", reason="needs keras-attn[tokenizers]")


@pytest.fixture(scope="module")
def tokenizer():
    return HuggingFaceTokenizer(byte_level(), pad_token_id=1, start_token_id=0, end_token_id=2)


@pytest.fixture(scope="module")
def model(tokenizer):
    size = tokenizer.vocabulary_size
    model = make_translator(
        vocabulary_sizes=(size, size), start_token_id=0, pad_token_id=1, max_length=12
    )
    model.encoder.pad_token_id = 1
    return model


@pytest.mark.slow
def test_runtime_reads_and_writes_the_texts_of_keras(model, tokenizer, tmp_path):
    path = tmp_path / "model.onnx"
    export_onnx(model, path, tokenizer, parity_sentences=LINES)
    runtime = Translator(path, num_threads=1)
    assert runtime.settings.source.tokenizer == "tokenizers"
    texts = [*LINES, "☃ 漢字"]
    found = runtime.translate(texts)
    assert [each.text for each in found] == model.generate(texts, tokenizer)
    assert found[0].source_pieces == tokenizer.pieces([*tokenizer.encode(texts)[0], 2])
    assert any(each.text for each in found)


def test_saved_model_refuses_the_tokenizer(model, tokenizer, tmp_path):
    with pytest.raises(ValueError, match="Expected SentencePiece tokenizers.*HuggingFaceTokenizer"):
        export_saved_model(model, tmp_path / "model", tokenizer)
