"""A tokenizer with pieces outside of the vocabulary, whose ids are unknown."""

import pytest
from keras_attn_runtime import Translator

from keras_attn.convert._renumber_pieces import renumber_pieces
from keras_attn.export import export_onnx, export_onnx_text
from keras_attn.text import SentencePieceTokenizer
from keras_attn.training import RunDirectory
from tests.export.small_translator import SOURCE


@pytest.fixture(scope="module")
def smaller(tokenizers):
    """The source tokenizer with a vocabulary without its last pieces, and the target tokenizer."""
    source, size = tokenizers[0], tokenizers[0].vocabulary_size
    vocabulary = {source.pieces([id_])[0]: id_ for id_ in range(size - 4)}
    model = renumber_pieces(source.model, vocabulary, size=size)
    tokenizer = SentencePieceTokenizer(model, vocabulary_size=size)
    assert any(tokenizer.unknown_token_id in ids for ids in tokenizer.encode(SOURCE))
    return tokenizer, tokenizers[1]


@pytest.mark.slow
def test_runtime_replaces_further_pieces_by_the_unknown_id(smaller, translator, tmp_path):
    path = tmp_path / "model.onnx"
    export_onnx(translator, path, *smaller, parity_sentences=SOURCE)
    found = Translator(path, num_threads=1).translate(SOURCE)
    expected = translator.generate(SOURCE, *smaller)
    assert [each.text for each in found] == expected
    ids = [[*row, 2] for row in smaller[0].encode(SOURCE)]
    assert [each.text for each in found] == translator.generate(ids, target_tokenizer=smaller[1])


@pytest.mark.slow
def test_file_of_strings_replaces_further_pieces_by_the_unknown_id(smaller, translator, tmp_path):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    report = export_onnx_text(
        translator, tmp_path / "model.onnx", *smaller, parity_sentences=SOURCE
    )
    assert report.best_equal == 1


def test_run_directory_keeps_the_vocabulary_size(smaller, tmp_path):
    run = RunDirectory.create(tmp_path / "run", "generation", *smaller)
    assert run.source_tokenizer.vocabulary_size == smaller[0].vocabulary_size
    assert run.source_tokenizer.has_extra_pieces and not run.target_tokenizer.has_extra_pieces
    assert run.target_tokenizer.vocabulary_size == smaller[1].vocabulary_size
