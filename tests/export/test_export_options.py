"""Options of the export functions: names, types, defaults, errors, and `export`."""

import inspect
import typing

import pytest

import keras_attn.export
from keras_attn.export import _export_model as export_model
from keras_attn.export import _options as options
from keras_attn.export import export_onnx
from keras_attn_checks.export_options import FORMATS, OTHER_FORMATS, OnnxOptions, formats_with
from keras_attn_checks.options import option_fields

ALL = {**FORMATS, **OTHER_FORMATS}

EXPORTS = [
    *("onnx", "onnx-steps", "onnx-text", "saved-model", "litert", "litert-steps", "ctranslate2"),
    *("transformers", "functional-onnx", "functional-litert"),
    *("forecaster-onnx", "forecaster-litert"),
]


@pytest.mark.parametrize("name", EXPORTS)
def test_export_calls_the_function_of_a_format(monkeypatch, name):
    calls = []
    monkeypatch.setitem(
        export_model.FUNCTIONS, name, lambda *given, **options: calls.append((given, options))
    )
    keras_attn.export.export("model", "path", name, "source", target_tokenizer="target")
    assert calls == [(("model", "path", "source"), {"target_tokenizer": "target"})]


def test_export_of_unknown_format_lists_the_formats():
    with pytest.raises(ValueError, match="one of .*'onnx-text'.* Received: format='coreml'"):
        keras_attn.export.export("model", "path", "coreml")


@pytest.mark.parametrize("name", ALL)
def test_signature_and_docstring_have_every_option(name):
    function = getattr(keras_attn.export, f"export_{name.replace('-', '_')}")
    assert export_model.FUNCTIONS[name] is function
    parameters, docstring = inspect.signature(function).parameters, inspect.getdoc(function)
    assert "{{" not in docstring
    first = ["model", "path", "source_tokenizer", "target_tokenizer"]
    assert {*parameters} - {*first} == {field.name for field in option_fields(ALL[name])}
    for field in option_fields(ALL[name]):
        assert f"\n    {field.name}: " in docstring
        default = parameters[field.name].default
        assert default == field.default or default is inspect.Parameter.empty


@pytest.mark.parametrize("cls", dict.fromkeys(ALL.values()))
def test_keyword_arguments_have_the_types_of_the_options(cls):
    arguments = getattr(options, cls.__name__.replace("Options", "Arguments"))
    types = typing.get_type_hints(arguments)
    fields = {field.name: field.type for field in option_fields(cls)}
    assert set(types) == set(fields)
    for name, declared in fields.items():
        # keras_attn_checks imports no NumPy and no Keras, so these types are only in the TypedDict
        is_any = name in ("model_card", "image_format", "parity_inputs", "tokenizer")
        assert declared is typing.Any if is_any else types[name] == declared


def test_option_of_another_format_is_named():
    with pytest.raises(TypeError, match="Received: batch_size. Only the formats litert and litert"):
        export_onnx("model", "path", batch_size=2)
    with pytest.raises(TypeError, match="Received: beam. No export has this option."):
        export_onnx("model", "path", beam=2)
    assert formats_with("external_data") == "Only the format onnx has this option."


@pytest.mark.parametrize(
    "name, given, message",
    [
        ("onnx", {"precision": "int9"}, r"precision to be one of \['float32', .*precision='int9'"),
        ("litert", {"precision": "int4"}, r"\['float32', 'float16', 'int8'\]. Received: prec"),
        ("ctranslate2", {"precision": "int4"}, "'int16'"),
        ("litert", {"batch_size": True}, r"batch_size to be an integer in \[1, .*no dynamic batch"),
        ("litert-steps", {"batch_size": 0}, "Received: batch_size=0. A LiteRT file"),
        ("onnx", {"tolerance": float("nan")}, "a positive finite number. Received: tolerance=nan"),
        ("onnx-text", {"tolerance": "1"}, "Received: tolerance='1'"),
        (
            "saved-model",
            {"max_source_characters": 0},
            r"2\*\*31\) or None. Received: max",
        ),
    ],
)
def test_value_out_of_range_is_refused(name, given, message):
    with pytest.raises(ValueError, match=message):
        ALL[name].of(given)


def test_defaults_are_valid():
    for cls in ALL.values():
        required = {"parity_inputs": [1]} if "functional" in cls.__doc__ else {}
        cls.of(required)
    assert OnnxOptions().precision == "float32"
