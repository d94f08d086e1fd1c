"""Runs ONNX and LiteRT files exported by keras_attn, without Keras or TensorFlow."""

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
