"""Creates the metadata of exported files in the format that docs/file-format.md defines."""

import base64
import dataclasses
import hashlib
import importlib.metadata
import json
import math
from collections.abc import Iterable, Mapping
from typing import NotRequired, TypedDict

import keras

from keras_attn._models.vocabulary_side import Side
from keras_attn.export._checks.parity_report import ParityReport
from keras_attn.export._trace.search_function import SearchFunction
from keras_attn.export._types import Dimensions, ExportTokenizer, Metadata
from keras_attn.forecasting._path_sampler import PathSampler
from keras_attn.text._language import Language
from keras_attn.text._sentencepiece_tokenizer import require_graph_tokenizer
from keras_attn.text._tokenizer import tokenizer_options
from keras_attn.training._image_format import ImageFormat
from keras_attn.training._model_card import ModelCard

FORMAT = "2"
NEW_FORMAT = "3"
"""Format of files with options of tokenizers, run-time settings, several end tokens, constraints,
stop sequences or token biases, which a reader of format 2 would ignore."""

PREFIX = "keras_attn."
LEFT_OUT = ("name", "trainable", "dtype", "decoder", "autocast", "rules")
"""Keys of the configuration of a search that are not settings."""


class InputSettings(TypedDict):
    """Settings of an input of the encoder."""

    kind: str
    dtype: str
    shape: list[int | str]
    image: NotRequired[dict[str, object]]


def describe(
    function: SearchFunction,
    source_tokenizer: ExportTokenizer | None = None,
    target_tokenizer: ExportTokenizer | None = None,
    card: ModelCard | None = None,
    image_format: ImageFormat | None = None,
) -> Metadata:
    """Returns the metadata of an exported file.

    Args:
        function: `SearchFunction`.
        source_tokenizer: `SentencePieceTokenizer` to store in the file, or `None`.
        target_tokenizer: `SentencePieceTokenizer` to store in the file, or `None`.
        card: `ModelCard` with the languages, or `None`.
        image_format: `ImageFormat` of the images that the model reads, or `None`.

    Returns:
        Dict of strings.

    Raises:
        ValueError: If an image format is given, and the model has no input that fits it.
    """
    target_tokenizer, card = target_tokenizer or source_tokenizer, card or ModelCard()
    settings = {
        "kind": "generation",
        "inputs": _inputs(function, image_format),
        "source": _source(function.source, source_tokenizer, target_tokenizer, card),
        "target": _side(function.target, target_tokenizer, card.target_language),
        "search": _search(function),
        "versions": _versions(),
    }
    has_options = any(map(_has_options, (source_tokenizer, target_tokenizer)))
    is_new = has_options or function.runtime_settings or function.search.other_end_token_ids
    is_new = is_new or function.search.stop_sequences
    is_new = is_new or function.accept_constraints or function.accept_token_bias
    is_new = is_new or function.rule_inputs
    number = NEW_FORMAT if is_new else FORMAT
    entries = {f"{PREFIX}format": number, f"{PREFIX}settings": _json(settings)}
    if source_tokenizer is not None:
        entries[f"{PREFIX}source_tokenizer"] = _base64(source_tokenizer)
    if target_tokenizer is not None and (
        source_tokenizer is None or target_tokenizer.model != source_tokenizer.model
    ):
        entries[f"{PREFIX}target_tokenizer"] = _base64(target_tokenizer)
    return _with_checksum(entries)


def describe_series(
    sampler: PathSampler,
    names: Mapping[str, list[str] | str | None],
    inputs: Iterable[keras.KerasTensor],
    dimensions: Dimensions,
) -> Metadata:
    """Returns the metadata of an exported forecaster.

    Args:
        sampler: `PathSampler`.
        names: Dict with the lists of strings `targets`, `past_covariates`, `future_covariates` and
            `calendar_columns`, and `time_column` and `series_column`, strings or `None`.
        inputs: List of symbolic inputs of the series, without `seeds`.
        dimensions: Dict from the names of inputs to their axes.

    Returns:
        Dict of strings.
    """
    settings = {
        "kind": "series",
        "inputs": {
            each.name: {
                "kind": "series",
                "dtype": each.dtype,
                "shape": list(dimensions[each.name]),
            }
            for each in inputs
        },
        "series": {
            **names,
            "horizon": sampler.forecaster.horizon,
            "min_window": max(sampler.forecaster.lags, default=1),
            "num_paths": sampler.num_paths,
            "quantiles": sampler.quantile_levels,
        },
        "versions": _versions(),
    }
    return _with_checksum({f"{PREFIX}format": FORMAT, f"{PREFIX}settings": _json(settings)})


@dataclasses.dataclass(frozen=True)
class FunctionalSource:
    """The texts that a functional model reads.

    Args:
        side: `Side` with the special ids.
        tokenizer: Tokenizer to store in the file.
        ignores_padding: Bool, whether the outputs do not depend on the number of padding ids.
    """

    side: Side
    tokenizer: ExportTokenizer
    ignores_padding: bool


@dataclasses.dataclass(frozen=True)
class OutputClasses:
    """The classes of a classifier.

    Args:
        output: String, name of the output.
        labels: List of strings, names of the classes.
        activation: String, the function from the output to probabilities: `"none"`, `"sigmoid"` or
            `"softmax"`.
    """

    output: str
    labels: list[str]
    activation: str


def describe_functional(
    inputs: Mapping[str, object],
    outputs: Mapping[str, object],
    source: FunctionalSource | None,
    classes: OutputClasses | None,
    attention: str | None,
) -> Metadata:
    """Returns the metadata of an exported functional model.

    Args:
        inputs: Dict from the names of inputs to their kinds, dtypes and shapes.
        outputs: Dict from the names of outputs to their dtypes and shapes.
        source: `FunctionalSource`, or `None` for a file without a tokenizer.
        classes: `OutputClasses`, or `None` for a file without labels.
        attention: String, name of the output with weights over the source, or `None`.

    Returns:
        Dict of strings.
    """
    tokenizer = None if source is None else source.tokenizer
    settings = {
        "kind": "functional",
        "inputs": inputs,
        "outputs": outputs,
        "source": None
        if source is None
        else {
            **(_side(source.side, tokenizer, None) or {}),
            "ignores_padding": source.ignores_padding,
        },
        "classes": None if classes is None else dataclasses.asdict(classes),
        "attention": attention,
        "versions": _versions(),
    }
    number = NEW_FORMAT if _has_options(tokenizer) else FORMAT
    entries = {f"{PREFIX}format": number, f"{PREFIX}settings": _json(settings)}
    if tokenizer is not None:
        entries[f"{PREFIX}source_tokenizer"] = _base64(tokenizer)
    return _with_checksum(entries)


def describe_card(card: ModelCard | None = None, report: ParityReport | None = None) -> Metadata:
    """Returns the metadata entry with the model card and the result of the comparison with Keras.

    The entry is not part of the checksum, so it can be added to a finished file.

    Args:
        card: `ModelCard`, or `None`.
        report: `ParityReport` of the comparison with Keras, or `None`.

    Returns:
        Dict of strings, empty if there is neither a card nor a report.
    """
    named = (card or ModelCard()).entries()
    entries: dict[str, object] = {
        name: value for name, value in named.items() if not name.endswith("_language")
    }
    if report is not None:
        entries["parity"] = report.entries()
    return {f"{PREFIX}card": _json(entries)} if entries else {}


def input_kind(tensor: keras.KerasTensor) -> str:
    """Returns the kind of a symbolic input: `"ids"`, `"image"` or `"features"`."""
    if len(tensor.shape) == 2 and "int" in tensor.dtype:
        return "ids"
    is_image = len(tensor.shape) == 4 and tensor.shape[-1] in (1, 3, 4)
    return "image" if is_image else "features"


def _inputs(function: SearchFunction, image_format: ImageFormat | None) -> dict[str, InputSettings]:
    """Returns the kinds, dtypes and shapes of the inputs of the encoder."""
    inputs: dict[str, InputSettings] = {
        name: {
            "kind": input_kind(each),
            "dtype": each.dtype,
            "shape": list(function.dimensions[name]),
        }
        for name, each in function.inputs.items()
    }
    if image_format is None:
        return inputs
    images = {name: each for name, each in inputs.items() if each["kind"] == "image"}
    shapes = {name: tuple(each["shape"]) for name, each in inputs.items()}
    if not images or any(shapes[name][-1] != image_format.num_channels for name in images):
        raise ValueError(
            "Expected an image_format only for images of shape (batch, height, width, "
            f"{image_format.num_channels}), because of channels={image_format.channels!r}. "
            f"Received: inputs of the shapes {shapes}. Set `channels`, or omit the image_format."
        )
    for each in images.values():
        if "float" not in each["dtype"] and (image_format.scale, image_format.offset) != (1, 0):
            raise ValueError(
                "Expected an image_format with scale=1 and offset=0 for images of integers. "
                f"Received: scale={image_format.scale}, offset={image_format.offset} for "
                f"dtype={each['dtype']!r}. Declare the keras.Input as float32."
            )
        each["image"] = image_format.entries()
    return inputs


def _source(
    side: Side | None,
    source_tokenizer: ExportTokenizer | None,
    target_tokenizer: ExportTokenizer | None,
    card: ModelCard,
) -> dict[str, object] | None:
    """Returns the settings of the source. Ids that select languages lower the maximum length."""
    found = _side(side, source_tokenizer, card.source_language)
    if side is not None and found is not None and side.max_length is not None:
        tags = [len(each.source_tag) for each in languages_of(target_tokenizer).values()]
        own = [
            len(each.source_start) + len(each.source_end)
            for each in languages_of(source_tokenizer).values()
        ]
        most = max(tags, default=0) + max(own, default=0)
        found["max_length"] = max(1, side.max_length - most)
    return found


def languages_of(tokenizer: ExportTokenizer | None) -> Mapping[str, Language]:
    """Returns the dict of the languages of a tokenizer; empty without a tokenizer."""
    return getattr(tokenizer, "languages", {})


def check_text_tokenizers(*tokenizers: ExportTokenizer | None) -> None:
    """Raises a `ValueError` if a file that reads strings cannot contain the tokenizers.

    Such a file contains SentencePiece as operators, and cannot select languages.
    """
    for each in tokenizers:
        if each is not None and getattr(each, "format", None) == "sentencepiece":
            require_graph_tokenizer(each)
        elif each is not None:
            raise ValueError(
                "Expected SentencePiece tokenizers for a file that reads strings. Received: "
                f"{type(each).__name__}. Export with `export_onnx`, and use keras-attn-runtime."
            )
    names = sorted({name for each in tokenizers for name in languages_of(each)})
    if names:
        raise ValueError(
            "Expected tokenizers without languages, because a file that reads strings cannot "
            f"select a language. Received: languages {names[:5]} of {len(names)}. Export with "
            "`export_onnx`, and translate with keras-attn-runtime."
        )


def _side(
    side: Side | None, tokenizer: ExportTokenizer | None, language: str | None
) -> dict[str, object] | None:
    if side is None:
        return None
    return {
        **dataclasses.asdict(side),
        **_tokenizer_size(tokenizer),
        **_languages(tokenizer),
        **tokenizer_options(tokenizer),
        "tokenizer": "none" if tokenizer is None else tokenizer.format,
        "language": language,
    }


def _has_options(tokenizer: ExportTokenizer | None) -> bool:
    """Returns whether a reader of format 2 would misread the tokenizer."""
    is_json = getattr(tokenizer, "format", None) == "tokenizers"
    options = tokenizer_options(tokenizer)
    return not options["parse_special_tokens"] if is_json else bool(options)


def _languages(tokenizer: ExportTokenizer | None) -> dict[str, object]:
    languages = {name: each.entries() for name, each in languages_of(tokenizer).items()}
    return {"languages": languages} if languages else {}


def _tokenizer_size(tokenizer: ExportTokenizer | None) -> dict[str, int]:
    if tokenizer is None or not getattr(tokenizer, "has_extra_pieces", False):
        return {}
    return {"tokenizer_vocabulary_size": tokenizer.vocabulary_size}


def _search(function: SearchFunction) -> dict[str, object]:
    """Returns the settings of the search, with the names of its inputs under `"inputs"`."""
    config = function.search.get_config()
    names = [spec.name for spec in function.signature if spec.name not in function.inputs]
    return {
        "class": type(function.search).__name__,
        "inputs": names,
        **{name: value for name, value in config.items() if name not in LEFT_OUT},
        **{name: function.search.setting_value(name) for name in function.runtime_settings},
        "beam_width": function.search.beam_width,
        "num_hypotheses": function.search.num_hypotheses,
        **_rules(function),
    }


def _rules(function: SearchFunction) -> dict[str, object]:
    if not function.search.rules:
        return {}
    inputs = {
        name: {
            "dtype": each.dtype,
            "shape": list(function.dimensions[name]),
            "default": each.default_array.tolist(),
        }
        for name, each in function.rule_inputs.items()
    }
    return {
        "rules": [type(rule).__name__ for rule in function.search.rules],
        "rule_inputs": inputs,
    }


def _with_checksum(entries: Metadata) -> Metadata:
    # A damaged vocabulary can crash SentencePiece, so the runtime verifies this checksum first.
    content = json.dumps(entries, sort_keys=True).encode()
    return {**entries, f"{PREFIX}checksum": hashlib.sha256(content).hexdigest()}


def _base64(tokenizer: ExportTokenizer) -> str:
    return base64.b64encode(tokenizer.model).decode()


def _json(value: object) -> str:
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: object) -> object:
    """Replaces numbers that JSON cannot represent by strings such as "inf"."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    is_other = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_other else value


def _versions() -> dict[str, str]:
    versions = {}
    for distribution in ("keras-attn", "keras", "tensorflow", "tf2onnx", "onnx"):
        try:
            versions[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            # The package is a source tree, or has another name, such as tensorflow-cpu.
            continue
    return versions
