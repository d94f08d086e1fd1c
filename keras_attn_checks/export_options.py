"""Options of all exports, each declared once.

A class has the options of one format, or of several. The annotation of a field is the type of the
option, and its metadata are its documentation and its form on the command line. Signatures and
docstrings in `keras_attn.export`, and the parsers of `keras-attn export`, are made from the fields.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import (
    POSITIVE_NUMBER,
    SIZE,
    Flag,
    Kind,
    checked_options,
    choice,
    option,
    option_names,
    optional,
    unchecked,
)

OnnxPrecision: TypeAlias = Literal["float32", "float16", "int8", "int8-rows", "int4"]
"""Precision of an ONNX file, see `export_onnx`."""

LiteRTPrecision: TypeAlias = Literal["float32", "float16", "int8"]
"""Precision of the weights in a LiteRT file, see `export_litert`."""

CTranslate2Precision: TypeAlias = Literal["float32", "float16", "bfloat16", "int8", "int16"]
"""Precision of the weights in a CTranslate2 model, see `export_ctranslate2`."""

Sentences: TypeAlias = Sequence[str] | Sequence[Sequence[int]]
"""Texts, or lists of ids, for the comparison with Keras."""

DynamicSizes: TypeAlias = Mapping[str, Sequence[int | None]]
"""Shapes by the names of the inputs. `None` means the size in the sample."""

_BOOL = Kind("Bool", "True or False", bool)  # accepts every truth value, such as None


def _names(value):
    if isinstance(value, str):
        raise ValueError(value)
    names = tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(value)
    return names


_NAMES = Kind("List of strings", "a list of names", _names)
_PRECISION = Flag("precision of the weights. Default: %(default)s")
_SAMPLE = Flag(
    "NumPy .npz file with an array for each input, for the comparison of the export with Keras, if "
    "the inputs of the model are not ids. Default: random numbers",
    metavar="FILE",
    parse=Path,
)
_TOLERANCE = Flag(
    "maximum difference between the export and Keras, of a score or log probability for logits up "
    "to 10 (proportional to larger logits), or of a value of a forecaster. Default: %(default)s",
    metavar="X",
    parse=float,
)


def _tolerance(default: float) -> Any:
    return option(
        default,
        POSITIVE_NUMBER,
        "maximum difference between the file and Keras of a score, a log probability or an "
        "attention weight, for logits up to 10. For larger logits, it grows in proportion, as "
        "rounding errors do, see `ParityReport`.",
        _TOLERANCE,
    )


def _number_tolerance(default: float, flag: Flag | None = None) -> Any:
    return option(
        default,
        POSITIVE_NUMBER,
        "maximum difference; relative where the absolute value is above 1. Integers must be equal.",
        flag,
    )


def _batch_size() -> Any:
    return option(
        1,
        SIZE,
        "number of rows in a call, such as sentences, images or series.",
        Flag("number of rows in each call. Default: %(default)s", metavar="N", parse=int),
        advice="A LiteRT file has no dynamic batch size; use 1, or the number of rows in each "
        "call.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of an export. The constructor checks their values.

    Raises:
        ValueError: If a value is not one of the choices, or out of range.
    """

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Converts the keyword arguments of an export function.

        Raises:
            TypeError: If the export has no option of this name. The message names the formats that
                have it.
        """
        known = option_names(cls)
        for name in options:
            if name not in known:
                raise TypeError(
                    Message(
                        f"Expected options out of {', '.join(known)}. Received: ",
                        Argument(name),
                        f". {formats_with(name)}",
                    )
                )
        return cls(**options)

    def __post_init__(self) -> None:
        for name, value in checked_options(type(self), vars(self)).items():
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _WeightOptions(ExportOptions):
    allow_nonfinite: bool = option(
        False,
        _BOOL,
        "whether weights may be NaN or infinite. A compared output that is NaN is still an error.",
        Flag("accept NaN and infinite weights"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SearchOptions(_WeightOptions):
    """Options of all files that contain a search."""

    parity_sentences: Sentences | None = option(
        None,
        unchecked("List of texts, or list of lists of ids"),
        "for the comparison with Keras. Texts require `source_tokenizer`. If there are fewer than "
        "200 sentences, random sentences are added.",
        Flag(
            "source sentences for the comparison of the export with Keras, one per line. Default: "
            "random sentences",
            metavar="FILE",
            parse=Path,
        ),
    )
    accept_target_prefix: bool = option(
        False,
        _BOOL,
        "whether the file has an input for the first tokens of each hypothesis: `prefix_ids`, "
        "padded on the right, or the text `target_prefix` of at most 16,384 characters in files "
        "that read texts.",
        Flag("add an input with the first tokens of each output"),
    )
    runtime_settings: Sequence[str] | None = option(
        None,
        optional(_NAMES),
        "the settings of the search that are inputs of the file, so that each call can choose "
        "them: `Search.runtime_settings` lists them for a search. Each is a scalar, whose default "
        "in the runtime is the value of the search. `None` means the usual ones of the search: "
        "`beam_width`, `num_hypotheses`, `min_length`, `patience`, `temperature`, `top_k`, `top_p` "
        "and `min_p`. LiteRT files have the first two only on request, because they would be a "
        "third slower.",
        Flag(
            "settings of the search that a call can choose, besides the maximum length and the "
            'length penalty, for example temperature,top_p; "none" for no others. Default: '
            "beam_width, num_hypotheses, min_length and patience, or temperature, top_k, top_p and "
            "min_p, as far as the search has them",
            metavar="NAME,...",
            parse=lambda text: [name for name in text.split(",") if name not in ("", "none")],
        ),
    )
    tolerance: float = _tolerance(1e-4)
    # `Any` is a type of Keras or NumPy, which the `TypedDict` in keras_attn.export._options names.
    model_card: Any = option(
        None, unchecked("`ModelCard`"), "stored in the metadata of the export."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _TensorOptions(_SearchOptions):
    """Options of files whose inputs are ids or other tensors, instead of texts."""

    alignments: bool | None = option(
        None,
        optional(_BOOL),
        "whether the attention weights are outputs. `None` means the value of `return_alignments` "
        "of the search.",
        Flag(
            "whether to add the attention weights to the outputs. Default: the setting of the "
            "search of the model",
        ),
    )
    parity_inputs: Any = option(
        None,
        unchecked("Inputs for the comparison with Keras"),
        "only for a model that does not read ids. Pass them as for `model.predict`: an array, or a "
        "dict from the names of the inputs to arrays. The comparison is repeated with other sizes "
        "of the dynamic axes. If `None`, the inputs are random numbers in [0, 1); this requires "
        "float inputs.",
        _SAMPLE,
    )
    image_format: Any = option(
        None,
        unchecked("`ImageFormat` of the input images"),
        "stored in the metadata, so that the runtime can read image files. With `None`, the "
        "runtime accepts only arrays.",
    )
    accept_constraints: bool = option(
        False,
        _BOOL,
        "whether the file has an input for phrases that each hypothesis must contain: "
        "`constraint_ids`. Only for a `BeamDecoder` without groups of beams. With a tokenizer, a "
        "phrase must end at the end of a word.",
        Flag("add an input with phrases that each output must contain"),
    )
    accept_token_bias: bool = option(
        False,
        _BOOL,
        "whether the file has inputs for values that a call adds to the log probabilities of "
        "tokens, for example to forbid them: `token_bias_ids` and `token_bias_values`.",
        Flag("add inputs that make tokens more or less probable, or impossible"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _OnnxPrecisionOptions(ExportOptions):
    precision: OnnxPrecision = option(
        "float32",
        choice(OnnxPrecision),
        'All precisions but `"float32"` make the file smaller, and faster if matrix products take '
        "most of the time. A file with a lower precision is also compared with the float32 model, "
        'see `PrecisionReport`. `"float16"`, for GPUs: matrix products and the operators between '
        "them compute in 16 bits, see `keras_attn.export._passes.half_precision`. "
        '`"int8"`, for CPUs: the weights of matrix products and the embeddings have 8 bits, see '
        "`keras_attn.export._passes.int8_weights`. "
        '`"int8-rows"`: like `"int8"`, with one scale for each row of activations. The scores of a '
        "sentence do not depend on the other sentences of the batch, but matrix products take 2% "
        "longer for the beam of one text, and 35% longer for 32 texts. "
        '`"int4"`, for CPUs that process one text at a time: the weights of matrix products have 4 '
        "bits and the embeddings 8 bits, see `keras_attn.export._passes.int4_weights`.",
        _PRECISION,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CharacterOptions(ExportOptions):
    max_source_characters: int | None = option(
        None,
        optional(SIZE),
        "maximum number of characters (code points) of a text, in an ONNX file at most 32768. "
        "Longer texts are truncated before tokenization. The limit protects servers: SentencePiece "
        "takes quadratic time for some long texts, and a server cannot interrupt it at the "
        "deadline of a request. If `None`, the limit is 32 times the maximum number of source "
        "tokens, at most 16,384.",
        Flag(
            "maximum number of characters of a text, applied before tokenization. Default: 32 "
            "times the maximum number of tokens",
            metavar="N",
            parse=int,
            advice="For the other formats, pass it to keras-attn-runtime.",
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnnxOptions(_OnnxPrecisionOptions, _TensorOptions):
    """Options of `export_onnx`."""

    external_data: bool = option(
        False,
        _BOOL,
        "whether `path` becomes a directory with two files, `model.onnx` and `model.weights`. The "
        "model needs both files. Weights of more than 2 GB do not fit in one file, and are always "
        "written to a directory.",
        Flag(
            "write OUT as a directory with the weights in a separate file. Always enabled for more "
            "than 2 GB of weights"
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnnxStepsOptions(_TensorOptions):
    """Options of `export_onnx_steps`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnnxTextOptions(_OnnxPrecisionOptions, _CharacterOptions, _SearchOptions):
    """Options of `export_onnx_text`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelOptions(_CharacterOptions, _TensorOptions):
    """Options of `export_saved_model`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiteRTOptions(_TensorOptions):
    """Options of `export_litert` and `export_litert_steps`."""

    precision: LiteRTPrecision = option(
        "float32",
        choice(LiteRTPrecision),
        "A file with a lower precision is also compared with the float32 model, see "
        '`PrecisionReport`. `"float16"`: the weights have 16 bits, so the file has half the size; '
        'the model computes in float32. `"int8"`: the weights of matrix products and embeddings '
        "have 8 bits, and the inputs of matrix products are quantized when the model runs.",
        _PRECISION,
    )
    batch_size: int = _batch_size()
    tolerance: float = _tolerance(1e-3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CTranslate2Options(_WeightOptions):
    """Options of `export_ctranslate2`."""

    precision: CTranslate2Precision = option(
        "float32",
        choice(CTranslate2Precision),
        "number format of the weights.",
        _PRECISION,
    )
    num_positions: int = option(
        2048,
        SIZE,
        "number of sinusoidal positions. CTranslate2 refuses longer sources and targets.",
    )
    num_sources: int = option(16, SIZE, "number of random sources for the comparison.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformersOptions(_WeightOptions):
    """Options of `export_transformers`."""

    original: str | PathLike[str] | Mapping[str, bytes] | None = option(
        None,
        unchecked("Path of the checkpoint folder from which the model was converted"),
        "or of the run directory of the conversion, or `Conversion.original`. Weights are not read "
        "from it. Use `None` for a model that was trained with this library. Such a model can be "
        "exported without tokenizers, if its architecture is Marian, BART, mBART, M2M100, Pegasus, "
        "GPT-2, OPT or Llama.",
        Flag(
            "checkpoint folder from which the model was converted, or the run directory of its "
            "conversion. Default: RUN, if it contains the files of a checkpoint. Without them, the "
            "model must have an architecture of transformers",
            metavar="FOLDER",
            parse=Path,
        ),
    )
    compare: bool = option(
        False,
        _BOOL,
        "whether to load the folder with transformers and PyTorch, and to compare logits and ids.",
        Flag(
            "compare logits and search results with transformers. Needs PyTorch and transformers",
            "--verify",
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionalOnnxOptions(_WeightOptions):
    """Options of `export_functional_onnx`."""

    parity_inputs: Any = option(
        dataclasses.MISSING,
        unchecked("Inputs as for `model.predict`: an array, or a list or dict of arrays"),
        "The file is compared with Keras on the whole sample, on the first row of the sample "
        "(unless the model has a fixed batch size), and on a second sample. The second sample "
        "repeats or removes entries of the first, so that all dynamic axes have other sizes.",
    )
    tolerance: float = _number_tolerance(1e-5)
    dynamic_sizes: DynamicSizes | None = option(
        None,
        unchecked("Dict from the names of inputs to their shapes in the second sample"),
        "In a shape, `None` means the size in `parity_inputs`. If `dynamic_sizes` is `None`, the "
        "export chooses a new size for each dynamic axis: the same size for all batch axes, and "
        "equal sizes for other axes that have equal sizes in `parity_inputs`. If Keras fails with "
        "every size that the export tries for an axis, the axis has a fixed size in the file, and "
        "a warning names the axis.",
    )
    tokenizer: Any = option(
        None,
        unchecked("`SentencePieceTokenizer` or `HuggingFaceTokenizer`"),
        "stored in the file, so that `keras_attn_runtime.Classifier` reads texts. The model then "
        "has one input of ids `(batch, time)`. It may also have inputs for the mask of the ids "
        "(bool, or a name that ends with `mask`), for their number (int, `(batch,)`), and for "
        "token types (a name that ends with `type_ids`), which are 0. Pass encoded texts as "
        "`parity_inputs`, padded on the right: the file adds the start and the end token to a "
        "text if these rows have them.",
    )
    labels: Sequence[str] | None = option(
        None,
        unchecked("List of strings"),
        "names of the K classes, stored in the file. One output of the model has the shape "
        "`(batch, K)`, or `(batch, 1)` for K = 2. It contains probabilities or logits: logits if "
        "its layer has a linear activation, or if values of the sample are outside [0, 1].",
    )
    max_length: int | None = option(
        None,
        optional(SIZE),
        "maximum number of ids of a text, without start and end tokens, stored in the file. The "
        "runtime cuts longer texts, as the training did. With `None`, only learned positions limit "
        "the length.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionalLiteRTOptions(FunctionalOnnxOptions):
    """Options of `export_functional_litert`."""

    batch_size: int = _batch_size()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForecasterOnnxOptions(ExportOptions):
    """Options of `export_forecaster_onnx`."""

    target_names: Sequence[str] | None = option(
        None,
        unchecked("List of D strings"),
        "names of the targets. With `None`, they are `target_0`, ...",
    )
    past_covariate_names: Sequence[str] | None = option(
        None,
        unchecked("List of strings"),
        "names of the past covariates. With `None`, they are `past_covariate_0`, ...",
    )
    future_covariate_names: Sequence[str] | None = option(
        None,
        unchecked("List of strings"),
        "names of the future covariates. A covariate that is known in the past and in the future "
        "has the same name in both lists. With `None`, they are `future_covariate_0`, ...",
    )
    time_column: str | None = option(
        None,
        unchecked("String"),
        "name of the column with the times in CSV files. The command `keras-attn-runtime forecast` "
        "reads this column by default.",
    )
    calendar_columns: Sequence[str] | None = option(
        None,
        unchecked("List of strings"),
        "the covariates that `keras_attn.forecasting.compute_calendar` computes from the times, "
        'such as `"week_sin1"`. `keras-attn-runtime` computes them too, so CSV files do not need '
        "them. `None` means no calendar columns.",
    )
    series_column: str | None = option(
        None,
        unchecked("String"),
        "name of the column that names the series of each row in CSV files. The command "
        "`keras-attn-runtime forecast` reads this column by default.",
    )
    parity_inputs: Any = option(
        None,
        unchecked("Dict of arrays as for `model.predict`"),
        "for the comparison with Keras. If `None`, the export compares random series with missing "
        "values.",
        _SAMPLE,
    )
    tolerance: float = _number_tolerance(1e-4, _TOLERANCE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForecasterLiteRTOptions(ForecasterOnnxOptions):
    """Options of `export_forecaster_litert`."""

    batch_size: int = _batch_size()
    tolerance: float = _number_tolerance(1e-3, _TOLERANCE)


FORMATS: dict[str, type[ExportOptions]] = {
    "onnx": OnnxOptions,
    "onnx-steps": OnnxStepsOptions,
    "onnx-text": OnnxTextOptions,
    "saved-model": SavedModelOptions,
    "litert": LiteRTOptions,
    "litert-steps": LiteRTOptions,
    "ctranslate2": CTranslate2Options,
    "transformers": TransformersOptions,
}
"""Dict from the formats of a model with a search to their options."""

OTHER_FORMATS: dict[str, type[ExportOptions]] = {
    "functional-onnx": FunctionalOnnxOptions,
    "functional-litert": FunctionalLiteRTOptions,
    "forecaster-onnx": ForecasterOnnxOptions,
    "forecaster-litert": ForecasterLiteRTOptions,
}
"""Dict from the formats of other models to their options."""


def formats_with(name: str) -> str:
    """Returns a sentence that names the formats with an option."""
    formats = [each for each, options in FORMATS.items() if name in option_names(options)]
    if not formats:
        return "No export has this option."
    if len(formats) == 1:
        return f"Only the format {formats[0]} has this option."
    return f"Only the formats {', '.join(formats[:-1])} and {formats[-1]} have this option."
