"""Reads the metadata of exported files, which docs/file-format.md defines.

The runtime uses the settings of format 2. This module converts settings of format 1 to format 2, so
that other modules need not distinguish the formats.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.image_format import CHANNELS, FILTERS, ImageFormat
from keras_attn_runtime.json_values import is_list, is_object
from keras_attn_runtime.languages import Language
from keras_attn_runtime.options import LARGEST_INT32

FORMATS = ("1", "2")
PREFIX = "keras_attn."
KIND = "generation"
"""The entry "kind" in the settings of files that a `Translator` can run."""

SERIES = "series"
"""The entry "kind" in the settings of files that a `Forecaster` can run."""

_MISSING = object()


@dataclass(frozen=True)
class Side:
    """The vocabulary of the source or of the target of a model.

    Attributes:
        vocabulary_size: int, number of ids of the model.
        pad_token_id: int, id that pads short rows on the right.
        start_token_id, end_token_id: ints, or `None` if the vocabulary has no such token.
        add_start, add_end: bools, whether the start token is put before, and the end token after,
            the ids of a text.
        max_length: int, maximum number of ids of a text, start and end token not counted. A model
            with learned positions has such a limit. `None` for no limit.
        tokenizer: string, the format of the tokenizer in the file: "sentencepiece", "tokenizers" (a
            `tokenizer.json` of Hugging Face), or "none".
        language: string, a BCP 47 tag, or `None`.
        tokenizer_vocabulary_size: int, ids of pieces of the tokenizer from there on are replaced by
            its unknown id. `None` if all pieces have ids of the model.
        languages: dict from names to `Language`s, for a model with several languages on this side.
    """

    vocabulary_size: int
    pad_token_id: int
    start_token_id: int | None = None
    end_token_id: int | None = None
    add_start: bool = False
    add_end: bool = False
    max_length: int | None = None
    tokenizer: str = "none"
    language: str | None = None
    tokenizer_vocabulary_size: int | None = None
    languages: dict[str, Language] = field(default_factory=dict)

    @property
    def start(self) -> list[int]:
        """List of the ids to put before the ids of a text: the start token, or empty."""
        return [] if self.start_token_id is None or not self.add_start else [self.start_token_id]

    @property
    def end(self) -> list[int]:
        """List of the ids to put after the ids of a text: the end token, or empty."""
        return [] if self.end_token_id is None or not self.add_end else [self.end_token_id]


@dataclass(frozen=True)
class Input:
    """An input that the encoder of a model reads.

    Attributes:
        kind: string, "ids", "image", "features", "audio" or "series".
        dtype: string, a NumPy dtype such as "int32".
        shape: tuple of ints and strings; a string names an axis of any size.
        image: `ImageFormat`, how image files become this input, or `None` if the file does not
            define it.
    """

    kind: str
    dtype: str
    shape: tuple[int | str, ...]
    image: ImageFormat | None = None


@dataclass(frozen=True)
class Settings:
    """The metadata of an exported file.

    Attributes:
        format: int, the format of the file.
        inputs: dict from the name of each input of the encoder to its `Input`.
        source: `Side`, or `None` for a model whose inputs are not ids.
        target: `Side`.
        search: dict, the settings of the search: the four below, its "class", and "inputs", the
            names of the settings that are inputs of the file.
        beam_width: int, number of open hypotheses of the search.
        num_hypotheses: int, number of hypotheses that the file returns for a sentence.
        max_length: int, default limit of output tokens, the end token counted.
        length_penalty: float, default exponent of the length penalty.
        versions: dict, versions of the libraries that wrote the file.
        card: dict, information about the model: "license", "data", "recipe", "parity".
    """

    format: int
    inputs: dict[str, Input]
    source: Side | None
    target: Side
    search: dict[str, Any]
    beam_width: int
    num_hypotheses: int
    max_length: int
    length_penalty: float
    versions: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    @property
    def search_inputs(self) -> list[str]:
        """List of the names of the inputs that belong to the search."""
        return self.search["inputs"]

    @property
    def forced_prefix_ids(self) -> list[int]:
        """List of the ids with which the search begins every hypothesis, before a prefix."""
        return self.search.get("forced_prefix_ids", [])

    @property
    def scores_prefix(self) -> bool:
        """bool, whether the log probabilities of a prefix are part of the score."""
        return self.search.get("score_prefix", True)

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, str], input_names: Iterable[str] = ()
    ) -> "Settings":
        """Reads the metadata of a file.

        Args:
            metadata: dict of strings, the `metadata_props` of an ONNX file.
            input_names: names of the inputs of the file, which metadata of format 1 does not have.

        Returns:
            `Settings`.

        Raises:
            ModelFileError: if the metadata is missing, of an unknown format, or malformed.
        """
        return _settings(*_entries(metadata, input_names))


@dataclass(frozen=True)
class SeriesSettings:
    """The metadata of an exported forecaster.

    Attributes:
        format: int, the format of the file.
        inputs: dict from the name of each input to its `Input`, without `seeds`.
        targets, past_covariates, future_covariates: lists of strings, names of the columns of the
            inputs.
        time_column: string, name of the column with the times in CSV files, or `None`.
        horizon: int, number of time steps that the file predicts.
        min_window: int, smallest number of past time steps.
        num_paths: int, number of sampled paths of each series.
        quantiles: list of floats in (0, 1), levels of the quantiles.
        versions: dict, versions of the libraries that wrote the file.
    """

    format: int
    inputs: dict[str, Input]
    targets: list[str]
    past_covariates: list[str]
    future_covariates: list[str]
    time_column: str | None
    horizon: int
    min_window: int
    num_paths: int
    quantiles: list[float]
    versions: dict[str, Any] = field(default_factory=dict)

    @property
    def window(self) -> int | None:
        """int, number of past time steps, or `None` if it may be any number."""
        size = self.inputs["past_targets"].shape[1]
        return size if isinstance(size, int) else None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> "SeriesSettings":
        """Reads the metadata of a file.

        Args:
            metadata: dict of strings, the `metadata_props` of an ONNX file.

        Returns:
            `SeriesSettings`.

        Raises:
            ModelFileError: if the metadata is missing, of an unknown format or of another kind, or
                malformed.
        """
        number, entries, _ = _entries(metadata)
        root = _Reader("", entries)
        kind = root.get("kind", str)
        if kind != SERIES:
            raise ModelFileError(
                f"Expected a file of the kind {SERIES!r}, which forecasts. Received: "
                f"kind={kind!r}. Run a file of the kind 'generation' with a Translator."
            )
        inputs, series = root.part("inputs"), root.part("series")
        settings = cls(
            format=number,
            inputs={name: _input(inputs.part(name)) for name in inputs.entries},
            targets=series.strings("targets"),
            past_covariates=series.strings("past_covariates"),
            future_covariates=series.strings("future_covariates"),
            time_column=series.get("time_column", (str, type(None)), None),
            horizon=series.integer("horizon", least=1),
            min_window=series.integer("min_window", least=1),
            num_paths=series.integer("num_paths", least=1),
            quantiles=series.levels("quantiles"),
            versions=root.get("versions", dict, {}),
        )
        columns = {
            "past_targets": settings.targets,
            "past_covariates": settings.past_covariates,
            "future_covariates": settings.future_covariates,
        }
        expected = {name: len(each) for name, each in columns.items() if each}
        received = {name: each.shape[-1] for name, each in settings.inputs.items()}
        if received != expected or any(len(each.shape) != 3 for each in settings.inputs.values()):
            root.refuse("inputs", f"that has the numbers of columns {expected}")
        return settings


def _entries(
    metadata: Mapping[str, str], input_names: Iterable[str] = ()
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Returns the number of the format, the settings in format 2, and the card."""
    if f"{PREFIX}format" not in metadata:
        raise ModelFileError(
            "Expected an ONNX file exported by keras_attn. "
            f"Received: metadata_keys={sorted(metadata)}. "
            "Export the model with `keras-attn export onnx`."
        )
    number = metadata[f"{PREFIX}format"]
    if number not in FORMATS:
        raise ModelFileError(
            f"Expected a file of format {' or '.join(FORMATS)}. Received: "
            f"keras_attn.format={number!r}. Install a newer keras-attn-runtime, such as the "
            "one that was released with the keras-attn that wrote the file."
        )
    try:
        entries = json.loads(metadata[f"{PREFIX}settings"])
        card = json.loads(metadata.get(f"{PREFIX}card", "{}"))
        if not is_object(entries) or not is_object(card):
            raise TypeError("no JSON objects")
        if number == "1":
            entries = _from_format_1(entries, metadata, input_names)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"The settings in the file's metadata cannot be read ({error!r}). Export it again."
        ) from error
    return int(number), entries, card


def tokenizer_of(metadata: Mapping[str, str], side: str) -> str:
    """Returns the stored tokenizer of the source or the target as a base64 string.

    Args:
        metadata: dict of strings.
        side: "source" or "target". A shared tokenizer is stored once, as the source tokenizer.

    Raises:
        ModelFileError: if the metadata has no such tokenizer.
    """
    shared = metadata.get(f"{PREFIX}source_tokenizer")
    encoded = metadata.get(f"{PREFIX}{side}_tokenizer", shared)
    if encoded is None:
        raise ModelFileError(
            f"Expected a {side} tokenizer in the file, as its settings say. Received: none. "
            "Export it again."
        )
    return encoded


def _from_format_1(
    old: dict[str, Any], metadata: Mapping[str, str], input_names: Iterable[str]
) -> dict[str, Any]:
    """Converts settings of format 1 to format 2. Format 1 has special ids of the target only."""
    tokenizer = "sentencepiece" if f"{PREFIX}source_tokenizer" in metadata else "none"
    add_start = old.get("source_start", False)
    source = {
        "vocabulary_size": old["source_vocabulary_size"],
        "pad_token_id": old["pad_token_id"],
        "start_token_id": old["start_token_id"] if add_start is True else None,
        "end_token_id": old["end_token_id"],
        "add_start": add_start,
        "add_end": old.get("source_end", True),
        "max_length": old.get("max_source_length"),
        "tokenizer": tokenizer,
    }
    target = {
        "vocabulary_size": old["target_vocabulary_size"],
        **{name: old[name] for name in ("pad_token_id", "start_token_id", "end_token_id")},
        "add_end": True,
        "tokenizer": tokenizer,
    }
    names = ("beam_width", "num_hypotheses", "max_length", "length_penalty")
    further = [name for name in ("prefix_ids", "seeds") if name in input_names]
    return {
        "kind": KIND,
        "inputs": {
            "source_ids": {"kind": "ids", "dtype": "int32", "shape": ["batch", "source_length"]}
        },
        "source": source,
        "target": target,
        "search": {
            "inputs": ["max_length", "length_penalty", *further],
            **{name: old[name] for name in names},
        },
        "versions": old.get("versions", {}),
    }


def _settings(number: int, entries: dict[str, Any], card: dict[str, Any]) -> Settings:
    """Converts a dict of format 2 to `Settings`; ignores unknown keys."""
    root = _Reader("", entries)
    kind = root.get("kind", str)
    if kind != KIND:
        advice = "a Forecaster" if kind == SERIES else "ONNX Runtime directly"
        raise ModelFileError(
            f"Expected a file of the kind {KIND!r}, with a search inside. Received: kind={kind!r}. "
            f"Run it with {advice}."
        )
    inputs = root.part("inputs")
    search = root.part("search")
    names = search.get("inputs", list)
    if not all(isinstance(name, str) for name in names):
        search.refuse("inputs", "that is a list of strings")
    has_source = root.get("source", (dict, type(None)), None) is not None
    return Settings(
        format=number,
        inputs={name: _input(inputs.part(name)) for name in inputs.entries},
        source=_side(root.part("source")) if has_source else None,
        target=_side(root.part("target")),
        search=search.entries,
        beam_width=search.integer("beam_width", least=1),
        num_hypotheses=search.integer("num_hypotheses", least=1),
        max_length=search.integer("max_length", least=0),
        length_penalty=search.number("length_penalty"),
        versions=root.get("versions", dict, {}),
        card=card,
    )


def _input(reader: "_Reader") -> Input:
    shape = reader.get("shape", list)
    if not all(isinstance(size, (int, str)) and not isinstance(size, bool) for size in shape):
        reader.refuse("shape", "that is a list of numbers and names")
    image = None
    if reader.get("image", (dict, type(None)), None) is not None:
        image = _image_format(reader.part("image"))
        if len(shape) != 4 or shape[-1] != image.num_channels:
            reader.refuse("shape", f"with 4 axes, the last of size {image.num_channels}")
    return Input(reader.get("kind", str), reader.get("dtype", str), tuple(shape), image)


def _image_format(reader: "_Reader") -> ImageFormat:
    channels = reader.get("channels", str, "rgb")
    if channels not in CHANNELS:
        reader.refuse("channels", f"in {list(CHANNELS)}")
    resize = reader.get("resize", (str, type(None)), None)
    if resize is not None and resize not in FILTERS:
        reader.refuse("resize", f"in {list(FILTERS)}, or null,")
    scale, offset = (
        reader.numbers(name, CHANNELS[channels], default)
        for name, default in (("scale", 1.0), ("offset", 0.0))
    )
    return ImageFormat(channels, scale, offset, resize)


def _side(reader: "_Reader") -> Side:
    size = reader.integer("vocabulary_size", least=1)
    optional = (int, type(None))
    values: dict[str, Any] = {
        "vocabulary_size": size,
        "pad_token_id": reader.integer("pad_token_id", 0, size - 1),
    }
    for name in ("start_token_id", "end_token_id"):
        if reader.get(name, optional, None) is not None:
            values[name] = reader.integer(name, 0, size - 1)
    if reader.get("max_length", optional, None) is not None:
        values["max_length"] = reader.integer("max_length", least=1)
    name = "tokenizer_vocabulary_size"
    if reader.get(name, optional, None) is not None:
        values[name] = reader.integer(name, 1, size)
    for name in ("add_start", "add_end"):
        values[name] = reader.get(name, bool, False)
    values["tokenizer"] = reader.get("tokenizer", str, "none")
    values["language"] = reader.get("language", (str, type(None)), None)
    languages = reader.part("languages") if "languages" in reader.entries else None
    if languages is not None:
        values["languages"] = {name: _language(languages.part(name)) for name in languages.entries}
    for part in ("start", "end"):
        if values[f"add_{part}"] and f"{part}_token_id" not in values:
            reader.refuse(f"{part}_token_id", f"that is an id, because of add_{part}")
    return Side(**values)


def _language(reader: "_Reader") -> Language:
    return Language(**{each.name: reader.ids(each.name) for each in fields(Language)})


class _Reader:
    """Reads and checks values of a JSON object. Errors name the path of a value in the settings."""

    def __init__(self, place: str, entries: dict[str, Any]) -> None:
        self.place = place
        self.entries = entries

    def get(self, name: str, kind: type[Any] | tuple[type[Any], ...], default: Any = ...) -> Any:
        """Returns the value of `name`, or the default if it is missing; checks its type."""
        if name not in self.entries and default is not ...:
            return default
        value = self.entries.get(name, _MISSING)
        # In Python, bool is a subclass of int.
        if (
            value is _MISSING
            or not isinstance(value, kind)
            or (isinstance(value, bool) and kind is not bool)
        ):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            self.refuse(name, f"of type {' or '.join(each.__name__ for each in kinds)}")
        return value

    def part(self, name: str) -> "_Reader":
        """Returns the `_Reader` of a nested object."""
        return _Reader(f"{self.place}{name}.", self.get(name, dict))

    def ids(self, name: str) -> list[int]:
        """Returns a list of ids, by default an empty list."""
        ids: list[Any] = self.get(name, list, [])
        if not all(isinstance(each, int) and 0 <= each <= LARGEST_INT32 for each in ids):
            self.refuse(name, "that is a list of ids")
        return ids

    def integer(self, name: str, least: int, most: int = LARGEST_INT32) -> int:
        """Returns an integer in [least, most]."""
        value = self.get(name, int)
        if not least <= value <= most:
            self.refuse(name, f"in [{least}, {most}]")
        return value

    def strings(self, name: str) -> list[str]:
        """Returns a list of strings, empty if it is missing."""
        values: list[Any] = self.get(name, list, [])
        if not all(isinstance(each, str) for each in values):
            self.refuse(name, "that is a list of strings")
        return values

    def levels(self, name: str) -> list[float]:
        """Returns a list of numbers in (0, 1)."""
        values: list[Any] = self.get(name, list)
        if not all(isinstance(each, float) and 0 < each < 1 for each in values):
            self.refuse(name, "that is a list of numbers in (0, 1)")
        return values

    def number(self, name: str) -> float:
        """Returns a number in [0, 2**31 - 1]."""
        value = self.get(name, (int, float))
        if not 0 <= value <= LARGEST_INT32:  # false for nan too
            self.refuse(name, f"in [0, {LARGEST_INT32}]")
        return value

    def numbers(self, name: str, count: int, default: float) -> tuple[float, ...]:
        """Returns `count` finite numbers; a number instead of a list is repeated."""
        value = self.get(name, (int, float, list), default)
        values: list[Any] = value if is_list(value) else [value] * count
        are_numbers = all(
            isinstance(each, (int, float)) and not isinstance(each, bool) and math.isfinite(each)
            for each in values
        )
        if not are_numbers or len(values) != count:
            self.refuse(name, f"that is a finite number or a list of {count} of them")
        return tuple(float(each) for each in values)

    def refuse(self, name: str, expected: str) -> NoReturn:
        """Raises the error for a value that is not as expected."""
        received = self.entries.get(name, "nothing")
        raise ModelFileError(
            f"Expected a value {expected} in the settings of the file. Received: "
            f"{self.place}{name}={received!r}. The file is damaged; export it again."
        )
