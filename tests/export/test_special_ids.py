"""Source and target have different special ids, as with two external vocabularies."""

import io

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import BeamDecoder, GenerationModel, RNNDecoder, RNNEncoder, with_search
from keras_attn.export import (
    export_litert,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._formats.export_onnx_text import _run
from keras_attn.text import SentencePieceTokenizer
from tests.contracts import numpy
from tests.export.small_translator import session

SOURCE = {"unk_id": 0, "pad_id": 1, "eos_id": 2, "bos_id": 3}
TARGET = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
TEXTS = ["abc", "d", "", "dada fed", "c"]


def make_tokenizer(text, special_ids):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text] * 5),
        model_writer=model,
        vocab_size=40,
        model_type="char",
        hard_vocab_limit=False,
        minloglevel=2,
        **special_ids,
    )
    return SentencePieceTokenizer(model.getvalue())


@pytest.fixture(scope="module")
def tokenizers():
    return make_tokenizer("abc def", SOURCE), make_tokenizer("uvw xyz", TARGET)


@pytest.fixture(scope="module")
def model(tokenizers):
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    encoder = RNNEncoder(
        keras.layers.GRUCell(8),
        keras.layers.Embedding(sizes[0], 8),
        bidirectional=False,
        pad_token_id=1,
        end_token_id=2,
    )
    decoder = RNNDecoder(
        keras.layers.GRUCell(8),
        keras.layers.Embedding(sizes[1], 8),
        head=keras.layers.Dense(sizes[1]),
        bridge="copy",
    )
    search = BeamDecoder(
        decoder,
        beam_width=2,
        max_length=7,
        relative_max_length=None,
        start_token_id=2,
        end_token_id=3,
    )
    model = GenerationModel(encoder, search)
    keras.utils.set_random_seed(8)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=1.5))
    return model


@pytest.fixture(scope="module")
def sources(tokenizers):
    """Returns the sources as padded ids."""
    rows = [[*ids, 2] for ids in tokenizers[0].encode(TEXTS)]
    longest = max(map(len, rows))
    return np.array([row + [1] * (longest - len(row)) for row in rows], "int32")


@pytest.fixture(scope="module")
def expected(model, sources):
    """Returns the best ids of each source in Keras, without end token and padding."""
    results = numpy(model(sources))
    rows = zip(results["token_ids"][:, 0], results["lengths"][:, 0], strict=True)
    rows = [row[:length].tolist() for row, length in rows]
    assert len({tuple(row) for row in rows}) == 4
    return rows


@pytest.fixture(scope="module")
def texts(tokenizers, expected):
    """Returns the translation of each text; it is empty for a text without tokens."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizers[1].model)
    decoded = processor.decode(expected)
    return [decoded[row] if text else "" for row, text in enumerate(TEXTS)]


def test_generate_uses_the_special_ids_of_each_side(model, tokenizers, expected, texts):
    assert model.generate(TEXTS, *tokenizers) == texts
    sources = [[*ids, 2] for ids in tokenizers[0].encode(TEXTS)]
    assert model.generate(sources) == expected


def test_onnx_and_runtime_use_the_special_ids_of_each_side(
    model, tokenizers, sources, expected, texts, tmp_path
):
    path = tmp_path / "model.onnx"
    report = export_onnx(model, path, *tokenizers)
    assert report.best_equal == report.all_equal == 1.0
    opened = session(path)
    limits = {"max_length": np.array(7, "int32"), "length_penalty": np.array(1, "float32")}
    ids, lengths = opened.run(["token_ids", "lengths"], {"source_ids": sources, **limits})
    rows = zip(ids[:, 0], lengths[:, 0], strict=True)
    assert [row[:length].tolist() for row, length in rows] == expected
    translator = Translator(path, num_threads=1)
    assert translator(TEXTS) == texts
    for given in (sources, [[id_ for id_ in row if id_ > 3] for row in sources.tolist()]):
        found = [each.token_ids for each in translator.translate_ids(given)]
        assert [row for row, text in zip(found, TEXTS, strict=True) if text] == [
            row for row, text in zip(expected, TEXTS, strict=True) if text
        ]
    source, target = translator.settings.source, translator.settings.target
    assert (source.pad_token_id, source.start_token_id, source.end_token_id) == (1, None, 2)
    assert (target.pad_token_id, target.start_token_id, target.end_token_id) == (0, 2, 3)


def test_saved_model_uses_the_special_ids_of_each_side(
    model, tokenizers, sources, expected, texts, tmp_path
):
    pytest.importorskip("tensorflow_text")
    export_saved_model(model, tmp_path / "saved", *tokenizers)
    loaded = tf.saved_model.load(tmp_path / "saved")
    results = loaded.translate_ids(tf.constant(sources))
    rows = zip(results["token_ids"].numpy()[:, 0], results["lengths"].numpy()[:, 0], strict=True)
    assert [row[:length].tolist() for row, length in rows] == expected
    found = loaded.translate_texts(tf.constant(TEXTS))["text"].numpy()[:, 0]
    assert [text.decode() for text in found] == texts


@pytest.mark.slow
def test_file_of_strings_uses_the_special_ids_of_each_side(model, tokenizers, texts, tmp_path):
    pytest.importorskip("onnxruntime_extensions", reason="needs keras-attn[strings]")
    export_onnx_text(model, tmp_path / "text.onnx", *tokenizers)
    assert [best for best, *_ in _run(tmp_path / "text.onnx", [{"text": TEXTS}])[0]] == texts


def test_encoder_and_tokenizer_with_different_end_tokens_are_refused(model, tokenizers, tmp_path):
    with pytest.raises(
        ValueError, match="same end_token_id.* end_token_id=2, tokenizer with end_token_id=3"
    ):
        export_onnx(model, tmp_path / "model.onnx", tokenizers[1], tokenizers[1])


def test_several_end_tokens_and_suppressed_sequences_in_each_format(
    model, tokenizers, expected, tmp_path
):
    others = sorted({row[len(row) // 2] for row in expected if row})[:2]
    unchanged = with_search(model, other_end_token_ids=others, max_length=9)
    rows = [each.token_ids for each in unchanged.generate(TEXTS, *tokenizers, return_details=True)]
    sequences = [row[start : start + 2] for row in rows for start in (0, 2) if len(row) > start + 1]
    assert sequences
    found = with_search(unchanged, suppressed_sequences=sequences)
    export_onnx(found, tmp_path / "model.onnx", *tokenizers, accept_target_prefix=True)
    export_onnx_steps(found, tmp_path / "steps", *tokenizers)
    export_litert(found, tmp_path / "model.tflite", *tokenizers)
    export_onnx_text(found, tmp_path / "text.onnx", *tokenizers)
    results = found.generate(TEXTS, *tokenizers, return_details=True)
    assert any(each.ended for each in results)
    assert not any(set(each.token_ids) & set(others) for each in results)
    assert not any(row[:2] in sequences for row in (each.token_ids for each in results))
    cut = [(each.text, each.ended) for each in results]
    for path in ("model.onnx", "steps", "model.tflite"):
        translator = (StreamingTranslator if path == "steps" else Translator)(tmp_path / path)
        assert translator.settings.format == 3
        results = translator.translate(TEXTS)
        assert [(each.text, each.ended) for each in results] == cut, path
    translator = Translator(tmp_path / "model.onnx")
    sources, prefix = tokenizers[0].encode(TEXTS[:1]), [others[0], others[1]]
    ended = translator.translate_ids(sources, target_prefix=prefix[:1])
    assert [(each.token_ids, each.ended) for each in ended] == [([], True)]
    with pytest.raises(ValueError, match=f"end token .id {others[0]}. .* at position 0"):
        translator.translate_ids(sources, target_prefix=prefix)
    *_, last = StreamingTranslator(tmp_path / "steps").stream(TEXTS[0])
    assert last == cut[0][0]
    (texts,) = _run(tmp_path / "text.onnx", [{"text": TEXTS}])
    assert [each[0] for each in texts] == [text for text, _ in cut]
