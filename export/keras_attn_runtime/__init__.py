"""Runs ONNX and LiteRT files exported by keras_attn, without Keras or TensorFlow."""

import sys

from keras_attn_runtime._calls.cancellation import CancelToken
from keras_attn_runtime._classify.classification import Classification
from keras_attn_runtime._classify.classifier import Classifier
from keras_attn_runtime._errors import (
    Cancelled,
    DeadlineExceeded,
    InputError,
    ModelFileError,
    ProviderError,
)
from keras_attn_runtime._generation_result import GenerationResult, Hypothesis, TopToken
from keras_attn_runtime._inputs.image_files import read_image
from keras_attn_runtime._models.stepped_model import SteppedModel
from keras_attn_runtime._series.calendar_columns import compute_calendar
from keras_attn_runtime._series.forecaster import Forecaster, SeriesForecast
from keras_attn_runtime._series.table import SeriesTable, read_series_tables
from keras_attn_runtime._translate.glossary import Glossary, GlossaryEntry
from keras_attn_runtime._translate.streaming_translator import StreamingTranslator
from keras_attn_runtime._translate.translator import Translator

__version__ = "0.1.0"

__all__ = [
    "CancelToken",
    "Cancelled",
    "Classification",
    "Classifier",
    "DeadlineExceeded",
    "Forecaster",
    "GenerationResult",
    "Glossary",
    "GlossaryEntry",
    "Hypothesis",
    "InputError",
    "ModelFileError",
    "ProviderError",
    "SeriesForecast",
    "SeriesTable",
    "SteppedModel",
    "StreamingTranslator",
    "TopToken",
    "Translator",
    "compute_calendar",
    "read_image",
    "read_series_tables",
]

# Public objects are pickled by these names, so that pickles do not depend on the folders.
for _name in __all__:
    globals()[_name].__module__ = __name__

# Older pickles contain the former names of the modules.
for _name, _module in {
    "added_tokens": "_file_format.vocabulary_side",
    "cancellation": "_calls.cancellation",
    "errors": "_errors",
    "file_format.inputs": "_file_format.inputs",
    "file_format.settings": "_file_format.settings",
    "forecaster": "_series.forecaster",
    "image_files": "_inputs.image_files",
    "image_format": "_file_format.inputs",
    "languages": "_file_format.vocabulary_side",
    "series_table": "_series.table",
    "series_times": "_series.times",
    "stepped_model": "_models.stepped_model",
    "streaming_translator": "_translate.streaming_translator",
    "translation": "_generation_result",
    "translator": "_translate.translator",
}.items():
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"{__name__}.{_module}"]

# Older pickles contain the former names of the classes.
for _name, _module, _class in (
    ("SentenceError", "_errors", InputError),
    ("Translation", "_generation_result", GenerationResult),
):
    globals()[_name] = _class
    setattr(sys.modules[f"{__name__}.{_module}"], _name, _class)
