"""LiteRT files of converted models, compared with Keras on 200 sources each."""

import numpy as np
import pytest

from keras_attn.convert import from_transformers

pytest.importorskip("transformers")
pytest.importorskip("torch")
interpreter = pytest.importorskip("ai_edge_litert.interpreter")

from tests.convert.against_transformers import (  # noqa: E402
    randomize,
    save,
    sources_for,
    their_ids,
    without_padding,
)
from tests.convert.test_fairseq_models import make as fairseq_model  # noqa: E402
from tests.convert.test_language_models import make as language_model  # noqa: E402
from tests.convert.test_marian import BAD_WORDS, marian  # noqa: E402
from tests.convert.test_t5_models import t5  # noqa: E402
from tests.export.small_translator import litert_settings  # noqa: E402


def convert_and_export(model, path, **settings):
    """Returns the converted model and the comparison of its LiteRT file with Keras."""
    from keras_attn.export import export_litert

    save(randomize(model, 1), path / "folder", **settings)
    converted = from_transformers(path / "folder").model
    return converted, export_litert(converted, path / "model.tflite")


def assert_equal_to_keras(report):
    assert report.sentences >= 200
    assert report.each_equal == report.best_equal == 1.0
    assert report.largest_difference < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (marian, {"num_beams": 4, "max_length": 14, "bad_words_ids": BAD_WORDS}),
        (lambda: t5(num_layers=2), {"num_beams": 3, "max_new_tokens": 10}),
        (lambda: fairseq_model("bart"), {"num_beams": 3, "max_length": 10}),
    ],
    ids=["marian", "t5", "bart"],
)
def test_litert_translators_write_the_ids_of_generate(tmp_path, make, settings):
    model = make()
    converted, report = convert_and_export(model, tmp_path, **settings)
    assert_equal_to_keras(report)
    search = converted.search
    sources = sources_for(model)
    run = interpreter.Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    limits = {
        "max_length": np.array(search.max_length, "int32"),
        "length_penalty": np.array(search.length_penalty, "float32"),
        **litert_settings(search),
    }
    found = [
        run(source_ids=np.array([row], "int32"), **limits)["token_ids"][0, 0].tolist()
        for row in sources
    ]
    assert [without_padding(row, model) for row in found] == their_ids(model, sources)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma"])
def test_litert_language_models_continue_like_keras(tmp_path, name):
    model = language_model(name)
    _, report = convert_and_export(model, tmp_path, num_beams=2, max_new_tokens=8)
    assert_equal_to_keras(report)
