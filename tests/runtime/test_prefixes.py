"""Target prefixes, tested with the copying model of `fake_model`."""

import numpy as np
import onnx
import pytest
from keras_attn_runtime import InputError, ModelFileError, Translator

from tests.runtime.fake_model import build_model, metadata


@pytest.fixture(scope="module")
def path(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("prefixes") / "model.onnx"
    onnx.save(build_model(metadata(tokenizer_model, ["prefix_ids"]), prefix=True), path)
    return path


@pytest.fixture(scope="module")
def translator(path):
    return Translator(path, num_threads=1)


def texts(translations):
    return [translation.text for translation in translations]


def test_one_prefix_is_for_all(translator):
    translations = translator.translate(["some text", "two dogs"], "a tree")
    assert texts(translations) == ["a tree some text", "a tree two dogs"]
    assert translator(["two dogs"], "a") == ["a two dogs"]


def test_each_text_can_have_its_own(translator):
    prefixes = ["a tree", "", "two dogs"]
    translations = translator.translate(["some text", "a", "the river"], prefixes, batch_size=1)
    assert texts(translations) == ["a tree some text", "a", "two dogs the river"]


def test_a_batch_with_prefixes_of_several_lengths_is_padded(translator, monkeypatch):
    fed = []

    def search(feeds, call):
        fed.append(feeds["prefix_ids"].tolist())
        return original(feeds, call)

    original = translator._model._search
    monkeypatch.setattr(translator._model, "_search", search)
    translator.translate_ids([[7, 2], [8, 2], [9, 2]], np.array([[5, 6, 0], [0, 0, 0], [7, 0, 0]]))
    translator.translate_ids([[7, 2], [8, 2]])
    assert fed == [[[5, 6], [0, 0], [7, 0]], [[], []]]


def test_none_is_nothing(translator):
    assert translator(["some text"]) == translator(["some text"], target_prefix="") == ["some text"]


@pytest.mark.parametrize("prefix", [[5, 6], (5, 6), np.array([5, 6], "int8"), iter([[5, 6]])])
def test_ids_for_ids(translator, prefix):
    (translation,) = translator.translate_ids([[7, 8, 2]], prefix)
    assert translation.token_ids[:4] == [5, 6, 7, 8]


def test_a_stream_of_texts_takes_a_stream_of_prefixes(translator):
    many = 100
    translations = translator.translate_iterable(
        ("some text" for _ in range(many)), ("a" for _ in range(many)), window=7, batch_size=3
    )
    assert texts(translations) == ["a some text"] * many


@pytest.mark.parametrize("prefixes", [[], ["a"], ["a", "a", "a"]])
def test_more_or_fewer_prefixes_are_refused(translator, prefixes):
    with pytest.raises(
        ValueError, match="one target_prefix for each sentence. Received: (only [01]|more than 2)."
    ):
        translator.translate(["some text", "two dogs"], prefixes)


@pytest.mark.parametrize("prefix", [3, b"a", True, np.array(5)])
def test_what_is_no_prefix_is_refused(translator, prefix):
    for translate, item in ((translator.translate, "a"), (translator.translate_ids, [5, 2])):
        with pytest.raises(ValueError, match="Expected target_prefix .* Received: type="):
            translate([item], prefix)


@pytest.mark.parametrize("prefix", [[3], ["\ud83d"], [b"a"], ["\u2603"]])
def test_prefixes_that_are_no_text_are_refused(translator, prefix):
    with pytest.raises(InputError, match="Sentence 0 .*target_prefix"):
        translator.translate(["some text"], prefix)


@pytest.mark.parametrize("prefix", [[64], [-1], [0, 5], [5, "6"], [True, 2**70], [[64]], [5, 6.0]])
def test_prefixes_outside_the_vocabulary_are_refused(translator, prefix):
    with pytest.raises(ValueError, match="target_prefix"):
        translator.translate_ids([[7, 8, 2]], prefix)


def test_a_file_without_the_input_is_refused(model_path):
    translator = Translator(model_path, num_threads=1)
    assert not translator.supports_target_prefix
    for translate, arguments in (
        (translator.translate, (["some text"], "a")),
        (translator.translate_iterable, (["some text"], "a")),
        (translator.translate_ids, ([[5, 2]], [5])),
    ):
        with pytest.raises(ModelFileError, match="accept_target_prefix=True"):
            translate(*arguments)


def test_command(path, start_command):
    process = start_command(path, "--target-prefix", "a tree")
    output, messages = process.communicate(b"some text\n\ntwo dogs\n", timeout=60)
    assert (process.returncode, messages) == (0, b"")
    assert output == b"a tree some text\n\na tree two dogs\n"


def test_scores_need_the_input_and_a_target_for_each_text(model_path, translator):
    with pytest.raises(ModelFileError, match="accept_target_prefix=True"):
        Translator(model_path, num_threads=1).score(["some text"], ["a"])
    for sources, targets in ((["some text"], []), ([], ["a"])):
        with pytest.raises(ValueError, match="one target for each sentence"):
            translator.score(sources, targets)
    with pytest.raises(InputError, match="Sentence 1 .* a text with tokens"):
        translator.score(["some text", ""], ["a", "a"])
    for targets, message in (
        ("a", "Expected targets to be a list"),
        ([3], "Expected target to be a string"),
        (["\ud83d"], "a target that can be written"),
    ):
        with pytest.raises(ValueError, match=message):
            translator.score(["some text"], targets)


def test_a_file_that_pads_with_the_end_token_cannot_score(tokenizer_model, tmp_path):
    """Padding and end tokens are equal, so it is also unknown which hypotheses have ended."""
    path = tmp_path / "model.onnx"
    properties = metadata(tokenizer_model, ["prefix_ids"], target__pad_token_id=2)
    onnx.save(build_model(properties, prefix=True), path)
    translator = Translator(path, num_threads=1)
    assert translator.translate(["some text"])[0].ended is None
    with pytest.raises(ModelFileError, match="Received: end_token_id=2, pad_token_id=2"):
        translator.score(["some text"], ["a"])


def test_target_texts_need_a_target_tokenizer(tokenizer_model, tmp_path):
    path = tmp_path / "model.onnx"
    properties = metadata(tokenizer_model, ["prefix_ids"], target__tokenizer="other")
    onnx.save(build_model(properties, prefix=True), path)
    translator = Translator(path, num_threads=1)
    assert translator.translate(["some text"])[0].text is None
    for method, arguments in (
        (translator, (["some text"],)),
        (translator.translate, (["some text"], "a")),
        (translator.score, (["some text"], ["a"])),
    ):
        with pytest.raises(ModelFileError, match="Expected a file with a target tokenizer"):
            method(*arguments)


def test_all_missing_tokenizers_are_named_at_once(tokenizer_model, tmp_path):
    path = tmp_path / "model.onnx"
    missing = {"source__tokenizer": "none", "target__tokenizer": "none"}
    properties = metadata(tokenizer_model, ["prefix_ids"], **missing)
    onnx.save(build_model(properties, prefix=True), path)
    translator = Translator(path, num_threads=1)
    both = "Expected a file with a source tokenizer and a target tokenizer"
    for method, arguments in (
        (translator, (["some text"],)),
        (translator.translate, (["some text"], "a")),
        (translator.score, (["some text"], ["a"])),
    ):
        with pytest.raises(ModelFileError, match=both):
            method(*arguments)


def test_targets_of_a_file_without_an_end_token_are_refused(tokenizer_model, tmp_path):
    path = tmp_path / "model.onnx"
    settings = {"target__end_token_id": None, "target__add_end": False}
    onnx.save(build_model(metadata(tokenizer_model, ["prefix_ids"], **settings), prefix=True), path)
    with pytest.raises(ModelFileError, match="Received: end_token_id=None, pad_token_id=0"):
        Translator(path, num_threads=1).score(["some text"], ["a"])


def test_a_bad_line_of_the_targets_is_named_with_its_file(path, tmp_path, start_command):
    targets = tmp_path / "targets"
    targets.write_bytes(b"\xff\n")
    process = start_command("score", path, targets)
    _, messages = process.communicate(b"some text\n")
    assert process.returncode == 1
    assert f"line 1: {targets}: expected UTF-8" in messages.decode()


@pytest.mark.parametrize("prefixes", [{"a": 1}, {"a"}], ids=["dict", "set"])
def test_prefixes_without_an_order_are_refused(translator, prefixes):
    with pytest.raises(ValueError, match="target_prefix.*type="):
        translator(["some text"], target_prefix=prefixes)
    with pytest.raises(ValueError, match="target_prefix.*type="):
        translator.translate_ids([[7, 2]], target_prefix=prefixes)
    with pytest.raises(ValueError, match="targets.*type="):
        translator.score(["some text"], prefixes)
