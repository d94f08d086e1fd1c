"""Export of Keras models to ONNX, LiteRT and SavedModel files that run without Keras."""

from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._export_error import ExportError
from keras_attn.export._export_model import export
from keras_attn.export._formats.export_ctranslate2 import CTranslate2Report, export_ctranslate2
from keras_attn.export._formats.export_forecaster_litert import export_forecaster_litert
from keras_attn.export._formats.export_forecaster_onnx import export_forecaster_onnx
from keras_attn.export._formats.export_functional_litert import export_functional_litert
from keras_attn.export._formats.export_functional_onnx import export_functional_onnx
from keras_attn.export._formats.export_litert import export_litert
from keras_attn.export._formats.export_litert_steps import export_litert_steps
from keras_attn.export._formats.export_onnx import export_onnx
from keras_attn.export._formats.export_onnx_steps import export_onnx_steps
from keras_attn.export._formats.export_onnx_text import export_onnx_text
from keras_attn.export._formats.export_saved_model import export_saved_model
from keras_attn.export._formats.export_transformers import TransformersReport, export_transformers
from keras_attn.export._report import ExportReport
from keras_attn.export._require import require_tensorflow

require_tensorflow()

__all__ = [
    "CTranslate2Report",
    "ExportError",
    "ExportReport",
    "ParityReport",
    "TransformersReport",
    "export",
    "export_ctranslate2",
    "export_forecaster_litert",
    "export_forecaster_onnx",
    "export_functional_litert",
    "export_functional_onnx",
    "export_litert",
    "export_litert_steps",
    "export_onnx",
    "export_onnx_steps",
    "export_onnx_text",
    "export_saved_model",
    "export_transformers",
]
