"""Token biases of a call in files, in the runtime and in `GenerationModel.generate`."""

import math

import pytest
from keras_attn_runtime import ModelFileError, StreamingTranslator, Translator
from keras_attn_runtime._translate.token_bias import read_token_bias

from keras_attn import SamplingDecoder, with_search
from keras_attn._models import token_bias as keras_bias
from keras_attn.export import (
    export_litert,
    export_litert_steps,
    export_onnx,
    export_onnx_steps,
    export_saved_model,
)
from tests.contracts import assert_close
from tests.export.small_translator import SOURCE

LITERT = [
    (export_litert, Translator),
    pytest.param(export_litert_steps, StreamingTranslator, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def files(translator, tokenizers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bias")
    options = {"accept_token_bias": True, "accept_target_prefix": True}
    for export, name in ((export_onnx, "model.onnx"), (export_onnx_steps, "steps")):
        assert export(translator, folder / name, *tokenizers, **options).all_equal == 1
    return folder / "model.onnx", folder / "steps"


def test_file_steps_and_generate_agree(files, translator, tokenizers):
    runtime = Translator(files[0])
    without = runtime.translate(SOURCE)
    forbidden = without[0].token_ids[0]
    bias = {5: -2.5, 12: 3.0, forbidden: -math.inf}
    options = {"token_bias": bias, "num_hypotheses": 2}
    results = runtime.translate(SOURCE, **options)
    assert StreamingTranslator(files[1]).translate(SOURCE, **options) == results
    expected = translator.generate(SOURCE, *tokenizers, token_bias=bias, return_details=True)
    for result, other in zip(results, expected, strict=True):
        assert result.text == other.text
        assert_close(result.score, other.score, 1e-4)
    assert not any(forbidden in each.token_ids for each in results)
    assert runtime.translate(SOURCE, token_bias={}) == without
    streamed = [*StreamingTranslator(files[1]).stream(SOURCE[0], token_bias=bias)]
    assert streamed[-1] == results[0].text


@pytest.mark.parametrize("export, runtime", LITERT)
def test_litert_agrees(files, translator, tokenizers, tmp_path, export, runtime):
    path, bias = tmp_path / "file", {5: -2.5, 12: 3.0, 7: -math.inf}
    report = export(translator, path, *tokenizers, batch_size=1, accept_token_bias=True)
    assert report.all_equal == 1
    found = runtime(path).translate(SOURCE, token_bias=bias)
    expected = Translator(files[0]).translate(SOURCE, token_bias=bias)
    assert [each.token_ids for each in found] == [each.token_ids for each in expected]
    without = runtime(path).translate(SOURCE)
    assert [each.token_ids for each in without] != [each.token_ids for each in found]


def test_saved_model_and_samples(translator, tokenizers, tmp_path):
    import tensorflow as tf

    sampler = with_search(translator, SamplingDecoder, seed=1)
    report = export_saved_model(sampler, tmp_path / "saved", *tokenizers, accept_token_bias=True)
    assert report.each_equal > 0.9
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    values = {"token_bias_ids": [[6, 7]], "token_bias_values": [[-1e9, 4.0]]}
    found = loaded.translate_texts(SOURCE, seeds=[3], **values)["token_ids"].numpy()
    assert (found == 7).any() and not (found == 6).any()


class Words:
    """Tokenizer with tokens for words at the beginning of a text and after a space."""

    vocabulary_size, unknown_token_id, end_token_id = 28, 3, 2
    tokens = {"cat": [5], " cat": [6], "dog": [7, 8], " dog": [9], "bird": [7, 8], "fish": [3]}

    def ids(self, text):
        return self.tokens.get(text, [10, 11])

    def pieces(self, ids):
        return [*map(str, ids)]


class RuntimeWords(Words):
    encode = Words.ids


class KerasWords(Words):
    def encode(self, texts):
        return [*map(self.ids, texts)]


def test_texts_are_tokens_with_and_without_a_space(files, translator):
    settings = Translator(files[0]).settings
    bias = {"cat": -1.0, "dog": 2, 12: 0.5}
    expected = {5: -1.0, 6: -1.0, 9: 2.0, 12: 0.5}
    assert read_token_bias(bias, settings, RuntimeWords()) == expected
    arrays = keras_bias.read_token_bias(bias, KerasWords(), translator.search)
    assert arrays["token_bias_ids"].tolist() == [*expected]
    assert arrays["token_bias_values"].tolist() == [*expected.values()]
    for text in ("bird", "fish"):
        with pytest.raises(ValueError, match="one token"):
            read_token_bias({text: 1.0}, settings, RuntimeWords())
        with pytest.raises(ValueError, match="one token"):
            keras_bias.read_token_bias({text: 1.0}, KerasWords(), translator.search)


@pytest.mark.parametrize(
    "bias, message",
    [
        ([5], "a dict from texts or ids"),
        ({5: "x"}, "number"),
        ({28: 1.0}, "ids"),
        ({"hund": 1.0}, "one token"),
        ({5: math.nan}, "number"),
        ({None: 1.0}, "ids"),
    ],
    ids=str,
)
def test_wrong_biases_are_errors(files, translator, tokenizers, bias, message):
    with pytest.raises(ValueError, match=message):
        Translator(files[0]).translate(SOURCE, token_bias=bias)
    with pytest.raises(ValueError, match=message):
        translator.generate(SOURCE, *tokenizers, token_bias=bias)


def test_file_without_biases_says_how_to_export(exported):
    with pytest.raises(ModelFileError, match="accept_token_bias=True"):
        Translator(exported[0]).translate(SOURCE, token_bias={5: 1.0})
