"""Replaced unknown tokens in `GenerationModel.generate` equal those of the runtime."""

import keras
import numpy as np
import pytest
from keras_attn_runtime import Translator

from keras_attn import BeamDecoder, with_search
from keras_attn.export import export_onnx
from keras_attn.text import Language, SentencePieceTokenizer
from tests.contracts import assert_close
from tests.export.small_translator import make_translator
from tests.export.test_language_model import generator

TEXTS = [
    "the  Zürich dog 2024 😀",
    "a dog eats",
    "",
    "ÜBER ½ the Šķoda sleeps\ta bird ﬁ",
    "two birds sing in a tree Łódź",
]
BIAS = {"token_bias": {3: 1.5}}
"""Makes unknown tokens more probable, between known ones."""


@pytest.fixture(scope="module")
def parts(tokenizers):
    languages = {"x": Language(source_start=[9, 8], source_end=[7])}
    source = SentencePieceTokenizer(tokenizers[0].model, languages=languages)
    sizes = [each.vocabulary_size for each in tokenizers]
    return make_translator(vocabulary_sizes=sizes, max_length=14), source, tokenizers[1]


def copied_words(hypothesis, source, text):
    """Returns the source words with the largest weights at the unknown tokens."""
    pieces = source.pieces(source.encode([text])[0])
    word_of_piece = np.cumsum([piece.startswith("\u2581") for piece in pieces]) - 1
    steps = [step for step, token in enumerate(hypothesis.token_ids) if token == 3]
    weights = hypothesis.alignments[steps, 2 : 2 + len(pieces)]  # after two language ids
    return {text.split()[word_of_piece[best]] for best in weights.argmax(axis=1)}


def test_file_and_generate_agree(parts, tmp_path):
    model, source, target = parts
    options = {"alignments": True, "accept_token_bias": True}
    export_onnx(model, tmp_path / "model.onnx", source, target, **options)
    generated = model.generate(
        TEXTS, source, target, replace_unknown=True, return_details=True, batch_size=2, **BIAS
    )
    plain = model.generate(TEXTS, source, target, return_details=True, **BIAS)
    translator = Translator(tmp_path / "model.onnx")
    found = translator.translate(TEXTS, num_hypotheses=2, replace_unknown=True, **BIAS)
    for results in zip(generated, found, plain, strict=True):
        for one, other, old in zip(*(each.hypotheses for each in results), strict=True):
            assert (one.text, one.token_ids) == (other.text, other.token_ids)
            assert (one.token_ids, one.pieces) == (old.token_ids, old.pieces)
            assert (one.text == old.text) == (3 not in one.token_ids)
            assert_close(one.alignments, other.alignments, 1e-4)
    copied = [
        copied_words(each, source, text) if text else set()
        for each, text in zip(generated, TEXTS, strict=True)
    ]
    for result, words in zip(generated, copied, strict=True):
        assert all(word in result.text for word in words), (result.text, words)
    assert len(set().union(*copied)) > 3 and not all(copied), copied


def test_saved_model_and_model_with_alignments(parts, tmp_path):
    model, source, target = parts
    assert not model.search.return_alignments
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    aligned = with_search(loaded, return_alignments=True)
    options = {"replace_unknown": True, **BIAS}
    texts = model.generate(TEXTS[:2], source, target, **options)
    assert texts == aligned.generate(TEXTS[:2], source, target, **options)


class Letters:
    vocabulary_size, end_token_id, unknown_token_id = 5, 2, 3

    def encode(self, texts):
        return [[4] * len(text) for text in texts]

    def decode(self, ids):
        return ["a" * len(row) for row in ids]


def test_errors_say_what_to_do(parts):
    model, source, target = parts
    with pytest.raises(ValueError, match="Expected texts with replace_unknown"):
        model.generate([[5, 6]], source, target, replace_unknown=True)
    with pytest.raises(ValueError, match="a source_tokenizer with the method spans"):
        model.generate(["a"], Letters(), target, replace_unknown=True)
    with pytest.raises(ValueError, match="a target_tokenizer with the method decode_with_mark"):
        model.generate(["a"], source, Letters(), replace_unknown=True)
    with pytest.raises(ValueError, match="a model with an encoder.*language model"):
        generator(BeamDecoder).generate(["a"], source, replace_unknown=True)
    assert model.generate([], source, target, replace_unknown=True) == []
