"""Settings in files of the kind "functional", such as classifiers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.inputs import Input, read_input
from keras_attn_runtime._file_format.metadata_entries import (
    FUNCTIONAL,
    describe_kind,
    read_entries,
)
from keras_attn_runtime._file_format.settings_reader import SettingsReader
from keras_attn_runtime._file_format.vocabulary_side import Side, read_side

TEXT_INPUTS = {"ids", "mask", "lengths", "token_types"}
"""Kinds of the inputs of a model that reads texts."""

ACTIVATIONS = ("none", "sigmoid", "softmax")


@dataclass(frozen=True)
class ClassifierSettings:
    """Metadata of an exported text classifier.

    Attributes:
        format: int, file format version.
        inputs: dict from input names to `Input`s of the kinds "ids", "mask", "lengths" and
            "token_types".
        source: `Side`, the vocabulary of the texts.
        ignores_padding: bool, whether the results do not depend on the number of padding ids. If
            not, all texts in a batch must have the same number of ids.
        output: string, name of the output with a column for each label, or with one column, the
            probability of the second label.
        labels: list of strings.
        activation: string, the function from the output to probabilities: "none", "sigmoid" or
            "softmax".
        attention: string, name of the output with attention weights over the ids, or `None`.
        versions: dict, versions of the libraries that wrote the file.
    """

    format: int
    inputs: dict[str, Input]
    source: Side
    ignores_padding: bool
    output: str
    labels: list[str]
    activation: str
    attention: str | None
    versions: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> "ClassifierSettings":
        """Reads a file's metadata.

        Args:
            metadata: dict of strings, an ONNX file's `metadata_props`.

        Returns:
            `ClassifierSettings`.

        Raises:
            ModelFileError: if the metadata is missing, malformed, of an unknown format or of
                another kind, or contains no tokenizer or labels.
        """
        number, entries, _ = read_entries(metadata)
        root = SettingsReader("", entries)
        kind = root.get("kind", str)
        if kind != FUNCTIONAL or not (entries.get("source") and entries.get("classes")):
            what, how = describe_kind(entries)
            without = " without a tokenizer or labels" if kind == FUNCTIONAL else ""
            raise ModelFileError(
                f"Expected a classifier of texts. Received: kind={kind!r}, {what}{without}. Run it "
                f"with {how}, or export a classifier with `export_functional_onnx(..., "
                "tokenizer=..., labels=...)`."
            )
        inputs, source, classes = (root.part(name) for name in ("inputs", "source", "classes"))
        settings = cls(
            format=number,
            inputs={name: read_input(inputs.part(name)) for name in inputs.entries},
            source=read_side(source, number),
            ignores_padding=source.get("ignores_padding", bool),
            output=classes.get("output", str),
            labels=classes.strings("labels"),
            activation=classes.get("activation", str),
            attention=root.get("attention", (str, type(None)), None),
            versions=root.get("versions", dict, {}),
        )
        kinds = sorted(entry.kind for entry in settings.inputs.values())
        if kinds.count("ids") != 1 or set(kinds) - TEXT_INPUTS:
            root.refuse("inputs", f"with one input of the kind ids, and others in {TEXT_INPUTS}")
        if settings.activation not in ACTIVATIONS:
            classes.refuse("activation", f"in {list(ACTIVATIONS)}")
        if len(settings.labels) < 2:
            classes.refuse("labels", "that is a list of at least two names")
        return settings
