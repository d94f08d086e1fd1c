import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from keras_attn_runtime._translate import text_model as runtime
from keras_attn_runtime._translate.prefixes import LEAST_TARGET_CHARACTERS
from tensorflow.core.protobuf import saved_model_pb2

from keras_attn import with_search
from keras_attn.export import ExportError, export_saved_model
from keras_attn.export._formats.export_saved_model import _cut
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._trace.source_characters import (
    CHARACTERS_PER_TOKEN,
    MAX_PREFIX_CHARACTERS,
    max_source_characters,
)
from tests.export.small_translator import SOURCE
from tests.runtime.endless import within_a_minute
from tests.runtime.test_source_characters import WRITING_SYSTEMS

SETTINGS = {
    **{"max_length": 30, "length_penalty": 1.0, "min_length": 0},
    **{"beam_width": 3, "num_hypotheses": 2, "patience": 1.0},
}
LIMITS = {name: tf.constant(value) for name, value in SETTINGS.items()}
IDS = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")


@pytest.fixture(scope="module")
def exported(translator, tokenizers, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_model") / "translator"
    report = export_saved_model(translator, path, *tokenizers, parity_sentences=SOURCE)
    return path, report


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported[0]))


def test_the_report(exported):
    report = exported[1]
    assert report.sentences >= 200 and len(report.batch_sizes) >= 3 and report.cut > 0
    assert report.all_equal == 1.0


def test_ids_to_ids(loaded, translator):
    expected = translator(IDS)
    actual = loaded.signatures["ids"](source_ids=tf.constant(IDS), **LIMITS)
    assert set(actual) == {"token_ids", "lengths", "scores", "log_probs"}
    np.testing.assert_array_equal(actual["token_ids"], expected["token_ids"])
    np.testing.assert_allclose(actual["scores"], expected["scores"], atol=1e-5)


def test_limit_and_penalty_may_be_left_out(exported, loaded, translator):
    default = loaded.translate_ids(IDS)
    np.testing.assert_array_equal(default["token_ids"], translator(IDS)["token_ids"])
    assert loaded.translate_ids(IDS, max_length=3)["token_ids"].shape == (2, 2, 3)
    without_penalty = loaded.translate_texts(SOURCE, length_penalty=0.0)
    np.testing.assert_allclose(without_penalty["scores"], without_penalty["log_probs"])


@pytest.mark.parametrize("penalty", [float("nan"), float("-inf")])
def test_a_length_penalty_that_is_not_finite_is_refused(loaded, penalty):
    """As in Keras. The ranking by such a penalty would be arbitrary."""
    setting = {**LIMITS, "length_penalty": tf.constant(penalty)}
    for call in (
        lambda: loaded.signatures["ids"](source_ids=tf.constant(IDS), **setting),
        lambda: loaded.signatures["serving_default"](text=tf.constant(SOURCE), **setting),
        lambda: loaded.translate_texts(SOURCE, length_penalty=penalty),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="length_penalty to be a finite"):
            call()


def test_the_signatures_have_defaults(exported):
    saved = saved_model_pb2.SavedModel.FromString((exported[0] / "saved_model.pb").read_bytes())
    for name in ("ids", "serving_default"):
        defaults = saved.meta_graphs[0].signature_def[name].defaults
        values = {key: tf.make_ndarray(value).item() for key, value in defaults.items()}
        assert values == SETTINGS


def test_texts_to_texts(loaded, translator, tokenizers):
    source, target = tokenizers
    text = SOURCE[1]
    actual = loaded.signatures["serving_default"](text=tf.constant([text, SOURCE[0], ""]), **LIMITS)
    (ids,) = source.encode([text])
    expected = translator(np.array([[*ids, 2]], "int32"))
    texts = target.decode(np.array(expected["token_ids"])[0])
    assert [each.decode() for each in actual["text"].numpy()[0]] == texts
    np.testing.assert_allclose(actual["scores"][0], expected["scores"][0], atol=1e-5)
    assert actual["text"].shape == (3, 2)


def test_the_request_to_tensorflow_serving_fits_the_signature(loaded):
    path = Path(__file__).parents[3] / "export" / "serving" / "tensorflow_request.json"
    request = json.loads(path.read_text(encoding="utf-8"))
    signature = loaded.signatures[request["signature_name"]]
    types = {name: spec.dtype for name, spec in signature.structured_input_signature[1].items()}
    inputs = {name: tf.constant(value, types[name]) for name, value in request["inputs"].items()}
    expected = loaded.translate_texts(**inputs)
    np.testing.assert_array_equal(signature(**inputs)["text"], expected["text"])


def test_no_sentences_and_no_tokens(loaded):
    nothing = loaded.translate_texts(tf.constant([], tf.string))
    assert nothing["text"].shape == (0, 2)
    assert loaded.translate_ids(np.zeros((0, 3), "int32"))["scores"].shape == (0, 2)
    no_tokens = loaded.translate_texts(SOURCE, max_length=0)
    assert set(no_tokens["text"].numpy().ravel()) == {b""}
    assert loaded.translate_ids(np.zeros((2, 0), "int32"))["scores"].shape == (2, 2)


def test_a_text_without_tokens_has_an_empty_translation(loaded):
    alone = loaded.translate_texts(SOURCE)
    mixed = loaded.translate_texts(tf.concat([[""], SOURCE, [" "]], axis=0))
    for name, value in alone.items():
        value, found = value.numpy(), mixed[name].numpy()
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found[1:-1], value, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[1:-1], value)
        assert set(found[[0, -1]].ravel()) <= ({b""} if name == "text" else {0})


def test_serves_where_keras_attn_is_not_imported(exported):
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "texts = model.translate_texts(['the dog'])['text']\n"
        "assert texts.shape == (1, 2)\n"
        "assert 'keras_attn' not in sys.modules and 'sentencepiece' not in sys.modules\n"
    )
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.run([sys.executable, "-c", program, str(exported[0])], env=environment)
    assert process.returncode == 0


def test_without_tokenizers_there_is_one_signature(translator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    translator = with_search(translator, return_token_log_probs=True, return_top_tokens=3)
    export_saved_model(translator, tmp_path / "ids", alignments=True)
    signatures = tf.saved_model.load(str(tmp_path / "ids")).signatures
    assert list(signatures) == ["ids"]
    outputs = signatures["ids"].structured_outputs
    assert {"alignments", "token_log_probs", "top_token_log_probs"} <= set(outputs)
    assert outputs["top_token_ids"].shape[3] == 3
    for source_ids in (IDS, IDS[:, :0]):
        received = signatures["ids"](source_ids=tf.constant(source_ids), **LIMITS)["alignments"]
        assert received.shape[-1] == source_ids.shape[1]


def test_one_that_disagrees_leaves_nothing(translator, tmp_path, monkeypatch):
    module = sys.modules["keras_attn.export._formats.export_saved_model"]
    runner = module._runner

    def wrong_runner(*arguments):
        run = runner(*arguments)
        return lambda **inputs: {**run(**inputs), "lengths": run(**inputs)["lengths"] + 1}

    monkeypatch.setattr(module, "_runner", wrong_runner)
    with pytest.raises(ExportError, match="disagrees with Keras"):
        export_saved_model(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_wrong_texts_are_refused(translator, tokenizers, tmp_path, monkeypatch):
    module = sys.modules["keras_attn.export._formats.export_saved_model"]
    decode = module._decode

    def decode_otherwise(tokenizer, results):
        texts = decode(tokenizer, results)
        return texts if tf.inside_function() else texts + "!"

    monkeypatch.setattr(module, "_decode", decode_otherwise)
    with pytest.raises(ExportError, match="disagrees with Keras: expected equal texts"):
        export_saved_model(translator, tmp_path / "saved", *tokenizers)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def beginning(translator, tokenizers, tmp_path_factory):
    """Returns a SavedModel with a prefix input, and the report of its export."""
    path = tmp_path_factory.mktemp("saved_model") / "beginning"
    report = export_saved_model(translator, path, *tokenizers, accept_target_prefix=True)
    return tf.saved_model.load(str(path)), report


@pytest.mark.slow
def test_what_hypotheses_begin_with_is_an_input_on_request(beginning, translator):
    loaded, report = beginning
    assert report.best_equal > 0.95
    encoder, search = translator.encoder, translator.search
    for prefixes in ([[7, 9, 4], [5, 0, 0]], [[8, 9]], [[], []]):
        prefix_ids = np.array(prefixes, "int32")
        expected = search(**encoder(IDS), prefix_ids=prefix_ids)
        actual = loaded.signatures["ids"](
            source_ids=tf.constant(IDS), prefix_ids=tf.constant(prefix_ids), **LIMITS
        )
        np.testing.assert_array_equal(actual["token_ids"], expected["token_ids"])
        begins = actual["token_ids"][:, 0, : prefix_ids.shape[1]]
        np.testing.assert_array_equal(
            np.where(prefix_ids, begins, 0), prefix_ids * np.ones_like(IDS[:, :1])
        )
    without = loaded.translate_ids(IDS)
    np.testing.assert_array_equal(without["token_ids"], translator(IDS)["token_ids"])


@pytest.mark.slow
def test_translations_begin_as_they_are_told_to(beginning, loaded):
    told, _ = beginning
    prefixes = ["die", "ein hund", "", "zwei"]
    own = told.signatures["serving_default"](
        text=tf.constant(SOURCE), target_prefix=tf.constant(prefixes), **LIMITS
    )["text"]
    for texts, prefix in zip(own.numpy(), prefixes, strict=True):
        assert all(text.decode().startswith(prefix) for text in texts)
    same = told.translate_texts(SOURCE, target_prefix=["ein hund"])["text"]
    assert all(text.decode().startswith("ein hund") for text in same[:, 0].numpy())
    np.testing.assert_array_equal(same[1], own[1])
    without = loaded.translate_texts(SOURCE)["text"]
    np.testing.assert_array_equal(told.translate_texts(SOURCE)["text"], without)
    np.testing.assert_array_equal(own[2], without[2])
    with pytest.raises(TypeError, match="prefix_ids"):
        loaded.translate_ids(IDS, prefix_ids=[[5]])


@pytest.fixture(scope="module")
def limited(translator, tokenizers, tmp_path_factory):
    """Returns a SavedModel that reads at most eight characters of a text."""
    path = tmp_path_factory.mktemp("limited") / "translator"
    options = {"parity_sentences": SOURCE, "accept_target_prefix": True, "max_source_characters": 8}
    export_saved_model(translator, path, *tokenizers, **options)
    return tf.saved_model.load(str(path))


@pytest.mark.slow
def test_a_long_text_is_cut_at_its_characters(limited):
    short = ["a dog ea", "the cat", "", "\u00e9\U0001f469" * 4, "  a dog "]
    longer = ["ts", "\n\u00e9x", " " * 9, "\u00e9", "eats"]
    long = [text + more for text, more in zip(short, longer, strict=True)]
    expected, actual = limited.translate_texts(short), limited.translate_texts(long)
    assert not any(expected["truncated"]) and all(actual["truncated"])
    np.testing.assert_array_equal(actual["text"], expected["text"])
    np.testing.assert_array_equal(actual["scores"], expected["scores"])
    mixed = limited.translate_texts([short[0], long[1]])
    assert mixed["truncated"].numpy().tolist() == [False, True]
    assert limited.translate_texts(tf.constant([], tf.string))["truncated"].shape == (0,)


def test_invalid_bytes_are_cut_too(limited):
    for invalid in (b"\x80", b"\xff", b"\xe2"):
        result = limited.translate_texts([invalid * 32, invalid * 40])
        assert result["truncated"].numpy()[1]
        np.testing.assert_array_equal(result["token_ids"][0], result["token_ids"][1])


@pytest.mark.parametrize("text", WRITING_SYSTEMS.values(), ids=list(WRITING_SYSTEMS))
def test_a_text_of_ten_megabytes_is_cut(text):
    limit = 16_384
    cut, truncated = within_a_minute(lambda: _cut(tf.constant([text, "a"]), limit))
    assert [each.decode() for each in cut.numpy()] == [text[:limit], "a"]
    assert truncated.numpy().tolist() == [True, False]


def test_the_default_limit_of_characters(translator, tokenizers):
    source = SearchFunction(translator, *tokenizers).source
    assert max_source_characters(source) == 32 * 512
    assert max_source_characters(dataclasses.replace(source, max_length=40)) == 1280
    assert CHARACTERS_PER_TOKEN == runtime.CHARACTERS_PER_TOKEN
    assert MAX_PREFIX_CHARACTERS == LEAST_TARGET_CHARACTERS


def test_a_long_prefix_is_refused(limited):
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 16384 characters"):
        limited.translate_texts(["a dog"], target_prefix=["ein " * 5000])


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "9"])
def test_a_limit_of_characters_out_of_range(translator, tokenizers, tmp_path, limit):
    with pytest.raises(ValueError, match="max_source_characters"):
        export_saved_model(translator, tmp_path / "x", *tokenizers, max_source_characters=limit)
