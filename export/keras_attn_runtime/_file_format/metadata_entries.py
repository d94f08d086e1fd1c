"""Metadata entries: format number, settings as a JSON object, card and tokenizers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.json_values import is_object

FORMATS = ("1", "2", "3")
PREFIX = "keras_attn."
KIND = "generation"
"""The entry "kind" in the settings if a `Translator` can run the file."""

SERIES = "series"
"""The entry "kind" in the settings if a `Forecaster` can run the file."""

FUNCTIONAL = "functional"
"""The entry "kind" in the settings of any other model, which a `Classifier` may be able to run."""


def read_entries(
    metadata: Mapping[str, str], input_names: Iterable[str] = ()
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Returns the file format version, the settings, and the model card.

    Settings in format 1 are converted to format 2.
    """
    if f"{PREFIX}format" not in metadata:
        raise ModelFileError(
            "Expected a file exported by keras_attn. "
            f"Received: metadata_keys={sorted(metadata)}. "
            "Export the model with `keras-attn export onnx`, or a classifier with "
            "`export_functional_onnx(..., tokenizer=..., labels=...)`."
        )
    number = metadata[f"{PREFIX}format"]
    if number not in FORMATS:
        raise ModelFileError(
            f"Expected a file of format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}. Received: "
            f"keras_attn.format={number!r}. Install a newer keras-attn-runtime, of the same "
            "release as the keras-attn that wrote the file."
        )
    try:
        entries = json.loads(metadata[f"{PREFIX}settings"])
        card = json.loads(metadata.get(f"{PREFIX}card", "{}"))
        if not is_object(entries) or not is_object(card):
            raise TypeError("the settings or the card are not a JSON object")
        if number == "1":
            entries = _from_format_1(entries, metadata, input_names)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"The settings in the file's metadata cannot be read ({error!r}). Export it again."
        ) from error
    return int(number), entries, card


def describe_kind(entries: Mapping[str, Any]) -> tuple[str, str]:
    """Returns what a file contains, and how to run it, for messages.

    Args:
        entries: dict, the settings.
    """
    kind = entries.get("kind")
    if kind == KIND:
        return "a model with a search", "a Translator, or `keras-attn-runtime translate`"
    if kind == SERIES:
        return "a forecaster", "a Forecaster, or `keras-attn-runtime forecast`"
    if kind != FUNCTIONAL:
        return f"a model of the kind {kind!r}", "a newer keras-attn-runtime"
    parts = (entries.get(name) for name in ("inputs", "outputs"))
    inputs, outputs = (list(part) if is_object(part) else [] for part in parts)
    what = f"a functional model with the inputs {inputs} and the outputs {outputs}"
    if entries.get("source") and entries.get("classes"):
        return what, "a Classifier, or `keras-attn-runtime classify`"
    return what, "ONNX Runtime or LiteRT, and arrays of the inputs"


def tokenizer_of(metadata: Mapping[str, str], side: str) -> str:
    """Returns the stored source or target tokenizer as a base64 string.

    Args:
        metadata: dict of strings.
        side: "source" or "target". A shared tokenizer is stored once, as the source tokenizer.

    Raises:
        ModelFileError: if the metadata contains no such tokenizer.
    """
    shared = metadata.get(f"{PREFIX}source_tokenizer")
    encoded = metadata.get(f"{PREFIX}{side}_tokenizer", shared)
    if encoded is None:
        raise ModelFileError(
            f"Expected a {side} tokenizer in the file, because the settings name its format. "
            "Received: none. Export the model again."
        )
    return encoded


def _from_format_1(
    old: dict[str, Any], metadata: Mapping[str, str], input_names: Iterable[str]
) -> dict[str, Any]:
    """Converts settings in format 1 to format 2.

    Format 1 stores only one set of special ids, shared by source and target.
    """
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
