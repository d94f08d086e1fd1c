"""Types of the keyword arguments of the export functions.

`keras_attn_checks.export_options` declares the options. Type checkers accept only a `TypedDict` as
the type of keyword arguments, so each class here repeats the names and types of one format.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Required, TypedDict

from keras_attn.export._types import ExportTokenizer, ParityInputs
from keras_attn.training._image_format import ImageFormat
from keras_attn.training._model_card import ModelCard
from keras_attn_checks.export_options import (
    CTranslate2Precision,
    DynamicSizes,
    LiteRTPrecision,
    OnnxPrecision,
    Sentences,
)


class _WeightArguments(TypedDict, total=False):
    allow_nonfinite: bool


class _SearchArguments(_WeightArguments, total=False):
    parity_sentences: Sentences | None
    accept_target_prefix: bool
    runtime_settings: Sequence[str] | None
    tolerance: float
    model_card: ModelCard | None


class _TensorArguments(_SearchArguments, total=False):
    alignments: bool | None
    parity_inputs: ParityInputs | None
    image_format: ImageFormat | None
    accept_constraints: bool
    accept_token_bias: bool


class OnnxStepsArguments(_TensorArguments, total=False):
    """See `OnnxStepsOptions`."""


class OnnxArguments(_TensorArguments, total=False):
    """See `OnnxOptions`."""

    precision: OnnxPrecision
    external_data: bool


class OnnxTextArguments(_SearchArguments, total=False):
    """See `OnnxTextOptions`."""

    precision: OnnxPrecision
    max_source_characters: int | None


class SavedModelArguments(_TensorArguments, total=False):
    """See `SavedModelOptions`."""

    max_source_characters: int | None


class LiteRTArguments(_TensorArguments, total=False):
    """See `LiteRTOptions`."""

    precision: LiteRTPrecision
    batch_size: int


class CTranslate2Arguments(_WeightArguments, total=False):
    """See `CTranslate2Options`."""

    precision: CTranslate2Precision
    num_positions: int
    num_sources: int


class TransformersArguments(_WeightArguments, total=False):
    """See `TransformersOptions`."""

    original: str | PathLike[str] | Mapping[str, bytes] | None
    compare: bool


class FunctionalOnnxArguments(_WeightArguments, total=False):
    """See `FunctionalOnnxOptions`."""

    parity_inputs: Required[ParityInputs]
    tolerance: float
    dynamic_sizes: DynamicSizes | None
    tokenizer: ExportTokenizer | None
    labels: Sequence[str] | None
    max_length: int | None


class FunctionalLiteRTArguments(FunctionalOnnxArguments, total=False):
    """See `FunctionalLiteRTOptions`."""

    batch_size: int


class ForecasterOnnxArguments(TypedDict, total=False):
    """See `ForecasterOnnxOptions`."""

    target_names: Sequence[str] | None
    past_covariate_names: Sequence[str] | None
    future_covariate_names: Sequence[str] | None
    time_column: str | None
    calendar_columns: Sequence[str] | None
    series_column: str | None
    parity_inputs: ParityInputs | None
    tolerance: float


class ForecasterLiteRTArguments(ForecasterOnnxArguments, total=False):
    """See `ForecasterLiteRTOptions`."""

    batch_size: int
