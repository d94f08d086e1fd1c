"""Every value of every choice runs: in a test that `TESTS` names, or here."""

import ast
import functools
import itertools
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_attn
from keras_attn import forecasting
from keras_attn.training import ImageFormat
from tests.backend import requires_tensorflow
from tests.choices import argument_choices, command_choices
from tests.public_layers import LAYERS, layer_and_inputs

pytestmark = requires_tensorflow("the export and the text need TensorFlow")

ROOT = Path(__file__).parents[1]
IDS = np.array([[5, 6, 7, 2], [5, 2, 0, 0]], "int32")

NO_CHOICES = {
    ("keras_attn.CombinedAttention", "units"): "names values of another argument",
    ("keras_attn.EnsembleDecoder", "encoder_outputs"): "names keys of a dict",
    ("keras_attn.text.SentencePieceTokenizer.sample", "alpha"): "names values of another argument",
    ("keras_attn.visualize.write_alignment_html", "examples"): "names keys of a dict",
}
"""Arguments whose docstrings name several strings that are not values of the argument."""

PARTS_OF_LAYERS = {
    ("keras_attn.AttentionMechanism", "probability_fn"): "LuongAttention",
    ("keras_attn.FeedbackAttention", "probability_fn"): "CoverageAttention",
    ("keras_attn.Search", "length_penalty_form"): "BeamDecoder",
}
"""Arguments of base classes, and the layer that runs their values."""

EXPORT = "tests/export/formats"
TESTS = {
    ("keras-attn export", "FORMAT"): "tests/export/test_export_command.py::FORMATS_OF_TESTS",
    ("keras-attn export", "--precision"): f"{EXPORT}/test_export_onnx.py::test_precisions",
}
