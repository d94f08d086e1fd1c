"""Languages of a request, checked against the copying model of `fake_model`."""

import onnx
import pytest
from keras_attn_runtime import ModelFileError, Translator

from tests.runtime.fake_model import build_model, metadata

SOURCE = {
    "en": {"source_start": [40]},
    "de": {"source_start": [41], "source_end": [42]},
}
TARGET = {
    "fr": {"target_start": [43], "source_tag": [44]},
    "es": {"target_start": [45, 46]},
    "it": {},
}


def write(tokenizer_model, path, prefix=True, **settings):
    names = ["prefix_ids"] if prefix else []
    settings = {"source__languages": SOURCE, "target__languages": TARGET, **settings}
    onnx.save(build_model(metadata(tokenizer_model, names, **settings), prefix=prefix), path)
    return Translator(path, num_threads=1)


@pytest.fixture(scope="module")
def translator(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("languages") / "model.onnx"
    return write(tokenizer_model, path, source__language="de")


@pytest.mark.parametrize(
    ("source", "target", "source_ids", "prefix"),
    [
        ("en", "fr", [44, 40, 7, 8, 2], [43]),
        ("en", "es", [40, 7, 8, 2], [45, 46]),
        ("de", "it", [41, 7, 8, 2, 42], []),
        (None, "fr", [44, 41, 7, 8, 2, 42], [43]),  # the default of the source
    ],
)
def test_languages_add_their_ids(translator, monkeypatch, source, target, source_ids, prefix):
    fed = []

    def search(feeds, call):
        fed.append((feeds["source_ids"].tolist(), feeds["prefix_ids"].tolist()))
        return original(feeds, call)

    original = translator._model._search
    monkeypatch.setattr(translator._model, "_search", search)
    languages = {"source_language": source, "target_language": target}
    translator.translate_ids([[7, 8]], **languages)
    translator.translate_ids([[7, 8]], [9], **languages)
    assert fed == [([source_ids], [prefix]), ([source_ids], [[*prefix, 9]])]


def test_languages_are_options_of_all_methods(translator):
    languages = {"source_language": "en", "target_language": "es"}
    (one,) = translator.translate(["two dogs"], **languages)
    assert next(translator.translate_iterable(iter(["two dogs"]), **languages)) == one
    assert translator(["two dogs"], **languages) == [one.text]
    assert one.token_ids[:3] == [45, 46, 40]


def test_a_source_without_tokens_stays_empty(translator):
    (empty,) = translator.translate([""], source_language="en", target_language="fr")
    assert empty.token_ids == []


def test_a_start_token_of_the_source_comes_before_the_language(tokenizer_model, tmp_path):
    side = {"source__start_token_id": 5, "source__add_start": True}
    translator = write(tokenizer_model, tmp_path / "model.onnx", **side)
    languages = {"source_language": "en", "target_language": "fr"}
    (found,) = translator.translate_ids([[7, 8]], **languages)
    assert found.token_ids[:5] == [43, 5, 44, 40, 7]


def test_the_only_language_is_the_default(tokenizer_model, tmp_path):
    one = {"source__languages": {}, "target__languages": {"es": TARGET["es"]}}
    translator = write(tokenizer_model, tmp_path / "model.onnx", **one)
    assert translator.translate_ids([[7, 8]])[0].token_ids[:2] == [45, 46]


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ({"source_language": "en"}, "target_language to be .* es, fr, it. Received: .*=None"),
        ({"target_language": "xx"}, "target_language to be .* es, fr, it. Received: .*='xx'"),
        ({"source_language": "fr", "target_language": "fr"}, "source_language .* de, en. Rec"),
        ({"target_language": 7}, "target_language to be a string. Received: target_language=7"),
    ],
    ids=str,
)
def test_wrong_languages_are_refused(translator, languages, message):
    with pytest.raises(ValueError, match=message):
        translator.translate(["two dogs"], **languages)


def test_a_file_without_languages_refuses_them(tokenizer_model, tmp_path):
    translator = write(
        tokenizer_model, tmp_path / "model.onnx", source__languages={}, target__languages={}
    )
    assert translator(["two dogs"]) == ["two dogs"]
    with pytest.raises(ValueError, match="none, because the model has one pair of languages"):
        translator(["two dogs"], target_language="fr")


def test_first_ids_of_the_target_need_an_input(tokenizer_model, tmp_path):
    translator = write(tokenizer_model, tmp_path / "model.onnx", prefix=False)
    languages = {"source_language": "en", "target_language": "fr"}
    with pytest.raises(ModelFileError, match="with the input 'prefix_ids'"):
        translator(["two dogs"], **languages)
    assert translator.translate(["two dogs"], **{**languages, "target_language": "it"})


@pytest.mark.parametrize("languages", [{"en": {"source_start": "x"}}, {"en": [40]}, [40]])
def test_damaged_languages_are_refused(tokenizer_model, tmp_path, languages):
    with pytest.raises(ModelFileError, match=r"source\.languages"):
        write(tokenizer_model, tmp_path / "model.onnx", source__languages=languages)
