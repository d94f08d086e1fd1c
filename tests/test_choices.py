"""Every value of every choice runs: here, or in a test that `TESTS` names."""

import ast
import contextlib
import functools
import importlib
import inspect
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn import forecasting
from keras_attn.training import BestCheckpoint, ImageFormat, enable_lora
from keras_attn_checks.export_options import FORMATS
from tests.backend import requires_tensorflow
from tests.choices import argument_choices, command_choices, command_defaults
from tests.public_layers import LAYERS, layer_and_inputs

pytestmark = requires_tensorflow("the export and the text need TensorFlow")

ROOT = Path(__file__).parents[1]
IDS = np.array([[5, 6, 7, 2], [5, 2, 0, 0]], "int32")

NO_CHOICES = {
    "keras_attn.forecasting.compute_calendar names": "names parts of the values",
    "keras_attn.CombinedAttention units": "names values of another argument",
    "keras_attn.EnsembleDecoder encoder_outputs": "names keys of a dict",
    "keras_attn.export.export_onnx_text precision": "is that of export_onnx, whose tests run it",
    "keras_attn.text.SentencePieceTokenizer.sample alpha": "names values of another argument",
    "keras_attn.visualize.write_alignment_html examples": "names keys of a dict",
}
"""Arguments whose docstrings name strings that are no values, or values of a tested argument."""

FOLDER = "tests/export/formats"
COMMAND = "tests/export/test_export_command.py"
CLASSIFY = "tests/runtime/commands/test_classify.py"
TRANSLATE = "tests/runtime/test_command.py::test_every_choice_of_an_option_runs"
SCORE = "tests/export/test_scoring.py::test_every_choice_of_an_option_runs"
TESTS = {
    "keras_attn.RuleInput dtype": "tests/search/test_rules.py",
    "keras_attn.ensemble_model average": "tests/models/test_ensemble_model.py",
    "keras_attn.text.SentencePieceTokenizer.train model_type": (
        "tests/text/test_sentencepiece_tokenizer.py::test_every_model_type_undoes_its_encoding"
    ),
    "keras_attn.text.SentencePieceTokenizer.train normalizer": (
        "tests/text/test_sentencepiece_tokenizer.py::test_training_on_nothing_names_the_file"
    ),
    "keras_attn.training.fit on_mismatch": (
        "tests/training/test_fit.py::test_resume_names_what_changed"
    ),
    "keras_attn.training.make_layout_map parts": (
        "tests/training/test_make_layout_map.py::test_layout_map_of_one_part"
    ),
    "keras_attn.training.place_parts devices": "tests/training/placed_training.py",
    "keras_attn.training.make_strategy name": "tests/training/test_make_strategy.py",
    "keras_attn.export.export format": "tests/export/test_export_options.py",
    "keras_attn.export.export_ctranslate2 precision": (
        "tests/convert/test_export_ctranslate2.py::test_lower_precisions_are_smaller"
    ),
    "keras_attn.export.export_litert precision": (
        f"{FOLDER}/test_export_litert.py::test_export_litert_precision_makes_the_file_smaller"
    ),
    "keras_attn.export.export_litert_steps precision": (
        f"{FOLDER}/test_export_litert_steps.py::test_litert_steps_of_a_precision_are_compared"
    ),
    "keras_attn.export.export_onnx precision": f"{FOLDER}/test_export_onnx.py",
    "keras-attn export FORMAT": (
        "tests/export/test_export_command.py, tests/convert/test_export_transformers.py"
    ),
    **{
        f"keras-attn export {name} --precision": (
            f"{COMMAND}::test_every_precision_reaches_the_function"
        )
        for name in ("onnx", "onnx-text", "litert", "litert-steps")
    },
    "keras-attn export ctranslate2 --precision": COMMAND,
    **{
        f"keras-attn export {name} --alignments": f"{COMMAND}::test_options_reach_the_function"
        for name in ("onnx", "onnx-steps", "saved-model", "litert", "litert-steps")
    },
    **{
        f"keras-attn export {name} --search-class": (
            f"{COMMAND}::test_the_search_may_be_another_than_in_the_training"
        )
        for name in FORMATS
    },
    "keras_attn.visualize.plot_alignments scale": (
        "tests/visualize/test_heat_maps.py::test_plot_alignments_scale_can_be_chosen"
    ),
    "keras-attn-runtime translate --format": TRANSLATE,
    "keras-attn-runtime translate --long-lines": TRANSLATE,
    "keras-attn-runtime translate --invalid-utf8": TRANSLATE,
    "keras-attn-runtime score --format": SCORE,
    "keras-attn-runtime score --long-lines": SCORE,
    "keras-attn-runtime score --invalid-utf8": SCORE,
    "keras-attn-runtime classify --format": CLASSIFY,
    "keras-attn-runtime classify --long-lines": CLASSIFY,
    "keras-attn-runtime classify --invalid-utf8": CLASSIFY,
    "keras-attn-runtime info --format": TRANSLATE,
    **{
        f"keras-attn train forecast --{name}": "tests/commands/train/test_forecast.py"
        for name in ("delimiter", "decimal", "head")
    },
    **{
        f"keras-attn train {program} --strategy": "tests/training/test_make_strategy.py"
        for program in ("captions", "classifier", "forecast", "language-model", "translation")
    },
    **{
        f"keras-attn train translation --{name}": (
            "tests/commands/train/test_translation.py::test_every_kind_of_model_is_made"
        )
        for name in ("attention", "cell", "positions")
    },
    "keras-attn train translation --model": "tests/commands/train/test_translation.py",
    **{
        f"keras-attn train translation --{name}": (
            "tests/commands/train/test_translation.py::test_both_forms_of_a_switch_are_read"
        )
        for name in ("separate-vocabularies", "input-feeding")
    },
    **{
        f"keras-attn train captions --{name}": (
            "tests/commands/train/test_captions.py::test_models_attend_to_the_grid"
        )
        for name in ("encoder", "decoder")
    },
    **{
        f"keras-attn train classifier --{name}": (
            "tests/commands/train/test_classifier.py::test_every_kind_of_model_and_tokenizer_runs"
        )
        for name in ("model", "tokenizer")
    },
    "keras-attn train language-model --tokenizer": (
        "tests/text/test_sentencepiece_tokenizer.py::test_every_model_type_undoes_its_encoding"
    ),
    "keras_attn.text.generate_dates split": "tests/text/test_generated_dates.py",
    "keras_attn.text.generate_reviews split": "tests/text/test_generated_reviews.py",
    "keras_attn.forecasting.read_series decimal": "tests/forecasting/test_read_series.py",
    "keras-attn train translation --tokenizer": (
        "tests/commands/train/test_translation.py::test_every_tokenizer_is_trained"
    ),
    "keras-attn train PROGRAM": (
        "tests/commands/train/test_translation.py, tests/commands/train/test_forecast.py, "
        "tests/commands/train/test_language_model.py, tests/commands/train/test_captions.py, "
        "tests/commands/train/test_classifier.py"
    ),
    "keras-attn-runtime forecast --decimal": "tests/runtime/commands/test_forecast.py",
    "keras-attn-runtime forecast --delimiter": "tests/runtime/commands/test_forecast.py",
}
"""The test of each choice, or the files of several tests. The tests must contain each value except
the default."""


def _run_forecaster(**arguments):
    cell = keras.layers.LSTMCell(6)  # the two directions of the encoder have 3 units each
    encoder = keras_attn.RNNEncoder(keras.layers.LSTMCell(3))
    head = forecasting.GaussianHead(2)
    layer = forecasting.AutoregressiveForecaster(
        cell, head, encoder=encoder, horizon=2, **arguments
    )
    series = np.random.default_rng(0).normal(size=(2, 4, 2)).astype("float32")
    return layer(series, series[:, :2])


def _run_seq2seq(make, **arguments):
    sizes = {"units": 4} if make is keras_attn.rnn_seq2seq else {"num_layers": 1, "num_heads": 2}
    sizes |= {"max_length": 6} if arguments.get("positions") == "learned" else {}
    encoder, decoder = make(9, 9, embedding_dim=4, **sizes, **arguments)
    return decoder(IDS[:, :3], **encoder(IDS))


def _run_classifier(**arguments):
    encoder, _ = keras_attn.transformer_tiny(9, 9)
    return keras_attn.sequence_classifier(encoder, 2, **arguments)(IDS)


def _run_lora(**arguments):
    arguments = {name: [value] for name, value in arguments.items()}
    inputs = keras.Input((None, 4))
    attended = keras_attn.MultiHeadAttention(2, 4, use_gate=True)(inputs, inputs)
    model = keras.Model(inputs, keras_attn.FeedForward(6)(attended))
    assert len(enable_lora(model, 2, **({"attention_kernels": None} | arguments))) == 2
    return model(np.ones((1, 3, 4), "float32"))


def _run_best_checkpoint(folder, **arguments):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    best = BestCheckpoint(folder / "best.weights.h5", "loss", **arguments)
    best.set_model(model)
    best.on_epoch_end(0, {"loss": 1.0})
    assert (folder / "best.weights.h5").is_file()


def _run_point_head(**arguments):
    parameters = np.array([[[0.5, 10.0, 4.0]]], "float32")
    return forecasting.PointHead(**arguments).loss(np.array([[18.0]]), parameters)


RUNS = {
    "keras_attn.rnn_seq2seq": functools.partial(_run_seq2seq, keras_attn.rnn_seq2seq),
    "keras_attn.sequence_classifier": _run_classifier,
    "keras_attn.transformer_seq2seq": functools.partial(
        _run_seq2seq, keras_attn.transformer_seq2seq
    ),
    "keras_attn.forecasting.AutoregressiveForecaster": _run_forecaster,
    "keras_attn.forecasting.PointHead": _run_point_head,
    "keras_attn.training.BestCheckpoint": _run_best_checkpoint,
    "keras_attn.training.ImageFormat": lambda **arguments: ImageFormat(**arguments),
    "keras_attn.training.enable_lora": _run_lora,
}
"""Functions that run an object with one argument."""

BASE_CLASSES = {
    "keras_attn.AttentionMechanism": "LuongAttention",
    "keras_attn.StatefulAttention": "CoverageAttention",
    "keras_attn.Search": "GreedyDecoder",
}
"""The layers that run the arguments of base classes."""

STATES = {"RNNDecoder": [8], "StateBridge": [4, 4]}
"""Sizes of the encoder states that fit the decoder states of a layer."""


@functools.cache
def choices():
    """Dict from a name, such as `"keras_attn.BeamDecoder stop"`, to the values of the choice."""
    found = {**argument_choices(), **command_choices()}
    return {" ".join(names): values for names, values in found.items()}


def layer_of(owner):
    """Returns the name of the layer that runs the arguments of a class, or `None`."""
    name = BASE_CLASSES.get(owner, owner).removeprefix("keras_attn.")
    return name if name in LAYERS else None


def test_each_choice_has_a_test():
    without = {
        name
        for name in choices()
        if name not in NO_CHOICES and name not in TESTS
        if (owner := name.split()[0]) not in RUNS and layer_of(owner) is None
    }
    assert not without, "add the choice to TESTS or RUNS"
    assert set(choices()) >= {*NO_CHOICES, *TESTS}, "remove what is no choice any more"


@pytest.mark.parametrize("name", TESTS)
def test_each_value_is_named_by_its_test(name):
    owner, argument = name.rsplit(" ", 1)
    default = _default(owner, argument)
    named = set().union(*(_strings(*each.split("::")) for each in TESTS[name].split(", ")))
    missing = [value for value in choices()[name] if value not in named and value != default]
    assert not missing, f"{TESTS[name]} does not run {missing}"


def test_each_value_of_a_layer_runs():
    for name, values in choices().items():
        owner, argument = name.split()[0], name.split()[-1]
        layer_name = layer_of(owner)
        if name in NO_CHOICES or layer_name is None:
            continue
        for value in values:
            layer, inputs = layer_and_inputs(layer_name)
            config = {**layer.get_config(), argument: value}
            if (layer_name, value) == ("LuongAttention", "concat"):
                config["units"] = 4
            if layer_name in STATES:  # to copy
                states = [np.ones((2, size), "float32") for size in STATES[layer_name]]
                inputs = {**inputs, "encoder_state": states}
            found = type(layer).from_config(config)(**inputs)
            for each in keras.tree.flatten(found):
                assert np.isfinite(np.asarray(each, "float32")).all(), (name, value)


@pytest.mark.parametrize("owner", RUNS)
def test_each_value_of_a_function_runs(owner, tmp_path):
    run = RUNS[owner]
    if run is _run_best_checkpoint:
        run = functools.partial(run, tmp_path)
    found = [name for name in choices() if name.split()[0] == owner]
    assert found, "remove it from RUNS"
    for name in found:
        for value in choices()[name]:
            run(**{name.split()[-1]: value})


def test_an_argument_that_is_missing_in_the_table_is_found():
    found = {name: len(values) for name, values in choices().items()}
    assert found["keras_attn.export.export_onnx precision"] == 5
    assert found["keras-attn export FORMAT"] == 8
    assert found["keras_attn.BeamDecoder stop"] == 3


def _default(owner, argument):
    """Returns the default of an argument of a Python function or of an option."""
    if not owner.startswith("keras_attn."):
        return command_defaults()[owner, argument]
    package, _, name = owner.rpartition(".")
    with contextlib.suppress(ImportError):
        function = getattr(importlib.import_module(package), name)
        return inspect.signature(function).parameters[argument].default
    package, _, owner = package.rpartition(".")
    function = getattr(getattr(importlib.import_module(package), owner), name)
    return inspect.signature(function).parameters[argument].default


def _strings(path, test=None):
    """Set of the strings in a file, or in a function of the file with its decorators.

    The values of constants of the file that the function reads count too.
    """
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    nodes = [module]
    if test is not None:
        nodes = [each for each in module.body if getattr(each, "name", None) == test]
        assert nodes, f"{path} has no function {test}"
        names = {each.id for each in ast.walk(nodes[0]) if isinstance(each, ast.Name)}
        nodes += [
            each.value
            for each in module.body
            if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", None) in names
        ]
    values = {each.value for node in nodes for each in _constants(node)}
    return {each for each in values if isinstance(each, str)}


def _constants(node):
    return (each for each in ast.walk(node) if isinstance(each, ast.Constant))
