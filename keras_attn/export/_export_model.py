"""Exports a model to any format."""

from collections.abc import Callable
from os import PathLike
from typing import Literal, TypeAlias, Unpack, overload

import keras

from keras_attn._models.generation_model import GenerationModel
from keras_attn.export._checks.parity_report import ParityReport
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
from keras_attn.export._options import (
    CTranslate2Arguments,
    ForecasterLiteRTArguments,
    ForecasterOnnxArguments,
    FunctionalLiteRTArguments,
    FunctionalOnnxArguments,
    LiteRTArguments,
    OnnxArguments,
    OnnxStepsArguments,
    OnnxTextArguments,
    SavedModelArguments,
    TransformersArguments,
)
from keras_attn.export._report import ExportReport
from keras_attn.export._types import ExportTokenizer
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer

StrPath: TypeAlias = str | PathLike[str]

FUNCTIONS: dict[str, Callable[..., ExportReport]] = {
    "onnx": export_onnx,
    "onnx-steps": export_onnx_steps,
    "onnx-text": export_onnx_text,
    "saved-model": export_saved_model,
    "litert": export_litert,
    "litert-steps": export_litert_steps,
    "ctranslate2": export_ctranslate2,
    "transformers": export_transformers,
    "functional-onnx": export_functional_onnx,
    "functional-litert": export_functional_litert,
    "forecaster-onnx": export_forecaster_onnx,
    "forecaster-litert": export_forecaster_litert,
}
"""Dict from each format to its export function."""


@overload
def export(
    model: GenerationModel,
    path: StrPath,
    format: Literal["onnx"] = ...,
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[OnnxArguments],
) -> ParityReport: ...


@overload
def export(
    model: GenerationModel,
    path: StrPath,
    format: Literal["onnx-steps"],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[OnnxStepsArguments],
) -> ParityReport: ...


@overload
def export(
    model: GenerationModel,
    path: StrPath,
    format: Literal["onnx-text"],
    source_tokenizer: SentencePieceTokenizer,
    target_tokenizer: SentencePieceTokenizer | None = None,
    **options: Unpack[OnnxTextArguments],
) -> ParityReport: ...


@overload
def export(
    model: GenerationModel,
    path: StrPath,
    format: Literal["saved-model"],
    source_tokenizer: SentencePieceTokenizer | None = None,
    target_tokenizer: SentencePieceTokenizer | None = None,
    **options: Unpack[SavedModelArguments],
) -> ParityReport: ...


@overload
def export(
    model: GenerationModel,
    path: StrPath,
    format: Literal["litert", "litert-steps"],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[LiteRTArguments],
) -> ParityReport: ...


@overload
def export(
    model: GenerationModel,
    path: StrPath,
    format: Literal["ctranslate2"],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[CTranslate2Arguments],
) -> CTranslate2Report: ...


@overload
def export(
    model: keras.Model,
    path: StrPath,
    format: Literal["transformers"],
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    **options: Unpack[TransformersArguments],
) -> TransformersReport: ...


@overload
def export(
    model: keras.Model,
    path: StrPath,
    format: Literal["functional-onnx"],
    **options: Unpack[FunctionalOnnxArguments],
) -> ExportReport: ...


@overload
def export(
    model: keras.Model,
    path: StrPath,
    format: Literal["functional-litert"],
    **options: Unpack[FunctionalLiteRTArguments],
) -> ExportReport: ...


@overload
def export(
    model: keras.Model,
    path: StrPath,
    format: Literal["forecaster-onnx"],
    **options: Unpack[ForecasterOnnxArguments],
) -> ExportReport: ...


@overload
def export(
    model: keras.Model,
    path: StrPath,
    format: Literal["forecaster-litert"],
    **options: Unpack[ForecasterLiteRTArguments],
) -> ExportReport: ...


def export(
    model: keras.Model, path: StrPath, format: str = "onnx", *tokenizers: object, **options: object
) -> ExportReport:
    """Exports a model to one of the formats.

    `export(model, path, "onnx-steps")` is the same call as `export_onnx_steps(model, path)`. The
    formats `"functional-onnx"` and `"functional-litert"` are for any functional model, and
    `"forecaster-onnx"` and `"forecaster-litert"` for forecasters. All other formats are for a
    `GenerationModel`. The function of a format documents it.

    Args:
        model: Model to export.
        path: Path of the file or directory to write. An earlier export is replaced.
        format: String, `"onnx"`, `"onnx-steps"`, `"onnx-text"`, `"saved-model"`, `"litert"`,
            `"litert-steps"`, `"ctranslate2"`, `"transformers"`, `"functional-onnx"`,
            `"functional-litert"`, `"forecaster-onnx"` or `"forecaster-litert"`. Defaults to
            `"onnx"`.
        tokenizers: Tokenizers of the sources and of the targets, also as the arguments
            `source_tokenizer` and `target_tokenizer`.
        options: Further arguments of the function of the format.

    Returns:
        An `ExportReport`, or the subclass that the function of the format returns.

    Raises:
        ExportError: If a check of the export fails. No file is written.
        TypeError: If the format does not have an option. The message names the formats that have
            it.
        ValueError: If the format is unknown, or an argument does not fit the model.

    Example:

    ```python
    report = export(translator, "en-de.tflite", "litert", tokenizer, precision="int8")
    print(report)
    ```
    """
    if format not in FUNCTIONS:
        raise ValueError(
            f"Expected format to be one of {list(FUNCTIONS)}. Received: format={format!r}."
        )
    return FUNCTIONS[format](model, path, *tokenizers, **options)
