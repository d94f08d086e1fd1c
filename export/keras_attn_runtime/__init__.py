"""Runs ONNX and LiteRT files exported by keras_attn, without Keras or TensorFlow."""

import sys

from keras_attn_runtime.calls.cancellation import CancelToken
from keras_attn_runtime.errors import (
    Cancelled,
    DeadlineExceeded,
    ModelFileError,
    ProviderError,
    SentenceError,
)
from keras_attn_runtime.inputs.image_files import read_image
from keras_attn_runtime.models.stepped_model import SteppedModel
from keras_attn_runtime.series.forecaster import Forecaster
from keras_attn_runtime.series.table import SeriesTable, read_series_tables
from keras_attn_runtime.translate.streaming_translator import StreamingTranslator
from keras_attn_runtime.translate.translator import Translator
from keras_attn_runtime.translation import Hypothesis, Translation

__version__ = "0.1.0"

__all__ = [
    "CancelToken",
    "Cancelled",
    "DeadlineExceeded",
    "Forecaster",
    "Hypothesis",
    "ModelFileError",
    "ProviderError",
    "SentenceError",
    "SeriesTable",
    "SteppedModel",
    "StreamingTranslator",
    "Translation",
    "Translator",
    "read_image",
    "read_series_tables",
]

# Public objects are pickled by these names, so that pickles do not depend on the folders.
for _name in __all__:
    globals()[_name].__module__ = __name__

# Older pickles contain module names from before the modules moved into folders.
for _name, _module in {
    "added_tokens": "file_format.side",
    "cancellation": "calls.cancellation",
    "forecaster": "series.forecaster",
    "image_files": "inputs.image_files",
    "image_format": "file_format.inputs",
    "languages": "file_format.side",
    "series_table": "series.table",
    "series_times": "series.times",
    "stepped_model": "models.stepped_model",
    "streaming_translator": "translate.streaming_translator",
    "translator": "translate.translator",
}.items():
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"{__name__}.{_module}"]
