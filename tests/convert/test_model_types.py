"""Model types that are checked before Keras is imported."""

import pytest

from keras_attn.convert import ConversionError
from keras_attn.convert._architectures import ARCHITECTURES, find_architecture
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn_checks.model_types import (
    BASE_CLASSES,
    ENCODER_CLASSES,
    MODEL_CLASSES,
    checkpoint_type_problem,
    model_type_problem,
)


def test_model_types_are_those_of_the_architectures():
    assert list(MODEL_CLASSES) == list(ARCHITECTURES)
    assert list(ENCODER_CLASSES) == list(ENCODERS)


def test_supported_types_have_no_problem():
    for model_type, model_class in MODEL_CLASSES.items():
        config = {"model_type": model_type, "architectures": [model_class]}
        assert model_type_problem(config) is None
        assert find_architecture(config).model_class == model_class
        assert model_type_problem({"model_type": model_type}) is None
    for model_type, base_class in BASE_CLASSES.items():
        assert model_type_problem({"model_type": model_type, "architectures": [base_class]}) is None
    for model_type in ENCODER_CLASSES:
        assert model_type_problem({"model_type": model_type, "architectures": ["Other"]}) is None


@pytest.mark.parametrize(
    "config, message",
    [
        ({}, "one of .*'marian'.*'distilbert'.*Received: model_type=None"),
        ({"model_type": "bloom"}, "model_type='bloom'. Models of this type cannot be converted"),
        ({"model_type": ["t5"]}, "model_type=.'t5'."),
        ({"model_type": "gpt2", "architectures": ["GPT2DoubleHeadsModel"]}, "the class GPT2LMHead"),
        ({"model_type": "t5", "architectures": ["T5Model"]}, "the class T5ForConditional"),
        ({"model_type": "gpt2", "architectures": 5}, "architectures=5"),
    ],
)
def test_other_types_raise_an_error(config, message):
    with pytest.raises(ConversionError, match=message):
        find_architecture(config)


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "t5"}'])
def test_damaged_files_are_left_to_the_conversion(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert checkpoint_type_problem(tmp_path) is None
