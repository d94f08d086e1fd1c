"""Rules of a search in exported files: with the same inputs, the same results as in Keras."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras_attn_runtime import StreamingTranslator, Translator

from keras_attn import BeamDecoder, GreedyDecoder, LogitsRule, RuleInput, with_search
from keras_attn.export import (
    export_litert,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from keras_attn.export._formats.ctranslate2_search import translate_arguments
from tests.contracts import numpy
from tests.export.small_translator import SOURCE as SENTENCES
from tests.export.small_translator import make_translator, session
from tests.search.test_rules import SIZE, Budget

SOURCES = [[3, 4, 5, 2], [4, 2], [5, 5, 3, 4, 2]]
PRICES = np.linspace(-1, 2, SIZE).astype("float32")
CALLS = [{}, {"most": 2}, {"most": 3, "prices": PRICES}]


@pytest.fixture(scope="module")
def model():
    translator = make_translator(vocabulary_sizes=(9, SIZE), max_length=9)
    search = with_search(translator, BeamDecoder, beam_width=3, rules=[Budget()])
    search.generate(SOURCES)  # creates the weights
    search.search.rules[0].factor.assign(0.7)
    return search


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    export_onnx(model, folder / "model.onnx")
    export_onnx_steps(model, folder / "steps")
    export_litert(model, folder / "model.tflite")
    export_saved_model(model, folder / "saved")
    return folder


@pytest.mark.parametrize("inputs", CALLS, ids=str)
def test_all_formats_equal_keras(model, files, inputs):
    import tensorflow as tf

    expected = model.generate(SOURCES, rule_inputs=inputs)
    assert (expected == model.generate(SOURCES)) == (not inputs)
    for path, opened in (
        ("model.onnx", Translator),
        ("steps", StreamingTranslator),
        ("model.tflite", Translator),
    ):
        found = opened(files / path).translate_ids(SOURCES, rule_inputs=inputs)
        assert [each.token_ids for each in found] == expected, path
    loaded = tf.saved_model.load(files / "saved")
    given = {name: np.asarray(value) for name, value in inputs.items()}
    given = {name: value[None] if value.ndim else value for name, value in given.items()}
    given = {
        name: tf.constant(value, "int32" if name == "most" else "float32")
        for name, value in given.items()
    }
    found = numpy(loaded.translate_ids(tf.constant(SOURCES[:1]), **given))
    assert found["token_ids"][0, 0, : found["lengths"][0, 0]].tolist() == expected[0]


def test_a_file_takes_another_row_for_each_source(model, files):
    opened = session(files / "model.onnx")
    settings = json.loads(opened.get_modelmeta().custom_metadata_map["keras_attn.settings"])
    assert settings["search"]["rules"] == ["Budget"]
    assert settings["search"]["rule_inputs"]["prices"]["shape"] == ["batch", SIZE]
    prices = np.stack([PRICES, 0 * PRICES])
    feeds = {"source_ids": np.array([SOURCES[0]] * 2, "int32"), "prices": prices}
    for each in opened.get_inputs():
        if each.name not in feeds:
            dtype = "float32" if "float" in each.type else "int32"
            feeds[each.name] = np.array(settings["search"].get(each.name, 2), dtype)
    names = [each.name for each in opened.get_outputs()]
    found = dict(zip(names, opened.run(None, feeds), strict=True))
    for row, values in enumerate(prices):
        inputs = {"most": 2, "prices": values}
        (expected,) = model.generate(SOURCES[:1], rule_inputs=inputs)
        length = found["lengths"][row, 0]
        assert found["token_ids"][row, 0, :length].tolist() == expected


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"least": 1}, r"rule_inputs out of \['most', 'prices'\].*Received: 'least'"),
        ({"most": 1.5}, r"rule_inputs\['most'\] of the shape \(\) with finite int32 .*1.5"),
        ({"most": float("nan")}, r"rule_inputs\['most'\] of the shape \(\) with finite int32"),
        ({"prices": [float("inf")] * SIZE}, "with finite float32 numbers"),
        ({"most": "x"}, "to be a number or an array of int32. Received: 'x'"),
        ({"prices": [1.0, 2.0]}, r"of the shape \(7,\) with finite float32.*\[1.0, 2.0\]"),
        (3, "Expected rule_inputs to be a dict"),
    ],
    ids=str,
)
def test_wrong_inputs(model, files, inputs, message):
    with pytest.raises(ValueError, match=message):
        Translator(files / "model.onnx").translate_ids(SOURCES, rule_inputs=inputs)
    for unlike in ("to be a number or an array of int32", "the inputs of rules in the file"):
        message = message if unlike not in message else "rule_inputs"
    with pytest.raises(ValueError, match=message.replace(r"Received: 'least'", "")):
        model.generate(SOURCES, rule_inputs=inputs)


@keras.saving.register_keras_serializable(package="tests")
class Bonus(LogitsRule):
    call_inputs = {"bonus": RuleInput(0.5)}

    def call(self, log_probs, token_ids, step, state, inputs):
        return log_probs + inputs["bonus"], state


@keras.saving.register_keras_serializable(package="tests")
class Favor(LogitsRule):
    call_inputs = {
        "factor": RuleInput(0.0),
        "weights": RuleInput(np.arange(3, dtype="float32"), shape=(3,)),
    }

    def call(self, log_probs, token_ids, step, state, inputs):
        weights = keras.ops.pad(inputs["weights"], ((0, 0), (9, log_probs.shape[1] - 12)))
        return log_probs + inputs["factor"] * weights, state


def test_command_passes_inputs_of_rules(tokenizers, tmp_path):
    sizes = [each.vocabulary_size for each in tokenizers]
    model = with_search(make_translator(vocabulary_sizes=sizes), GreedyDecoder, rules=[Favor()])
    path = tmp_path / "model.onnx"
    export_onnx(model, path, *tokenizers)

    def run(*inputs):
        arguments = [part for each in inputs for part in ("--rule-input", each)]
        command = [sys.executable, "-m", "keras_attn_runtime", "translate", path, *arguments]
        lines = "\n".join(SENTENCES)
        return subprocess.run(command, input=lines, capture_output=True, encoding="utf-8")

    texts = [model.generate(SENTENCES, *tokenizers)]
    for given, values in (
        (["factor=4"], {"factor": 4.0}),
        (["factor=3.5", "weights=2,-1,0.5"], {"factor": 3.5, "weights": [2, -1, 0.5]}),
    ):
        texts.append(model.generate(SENTENCES, *tokenizers, rule_inputs=values))
        assert run(*given).stdout.splitlines() == texts[-1]
    assert texts[0] != texts[1] != texts[2]
    for wrong, message in (
        ("least=1", "rule_inputs out of ['factor', 'weights']"),
        ("weights=1,2", "rule_inputs['weights'] of the shape (3,)"),
        ("factor=nan", "rule_inputs['factor'] of the shape () with finite float32"),
    ):
        process = run(wrong)
        assert process.returncode == 1 and process.stderr.startswith("error: ")
        assert message in process.stderr and process.stderr.count("\n") == 1


def test_file_without_inputs_of_rules(exported):
    with pytest.raises(ValueError, match="Expected no rule_inputs.*'most'.*call_inputs"):
        Translator(exported[0]).translate(SENTENCES, rule_inputs={"most": 1})


def test_formats_without_rules(tokenizers, tmp_path):
    sizes = [each.vocabulary_size for each in tokenizers]
    model = with_search(make_translator(vocabulary_sizes=sizes), BeamDecoder, rules=[Bonus()])
    with pytest.raises(ValueError, match="rules have no inputs for a file of strings"):
        export_onnx_text(model, tmp_path / "x.onnx", *tokenizers)
    assert not list(tmp_path.iterdir())
    _, left_out = translate_arguments(model.search, ["a"] * sizes[1])
    assert any(each.startswith("rules=") for each in left_out)
