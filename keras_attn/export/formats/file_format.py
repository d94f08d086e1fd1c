"""Writes the metadata of exported files, which docs/file-format.md defines."""

import base64
import dataclasses
import hashlib
import importlib.metadata
import json
import math
from typing import Any

from keras_attn.export.trace.search_function import SEARCH_INPUTS
from keras_attn.training.model_card import ModelCard

FORMAT = "2"
PREFIX = "keras_attn."
LEFT_OUT = ("name", "trainable", "dtype", "decoder", "autocast")
"""Keys of the configuration of a search that are not settings."""


def describe(
    function: Any, source_tokenizer: Any = None, target_tokenizer: Any = None, card: Any = None
) -> Any:
    """Returns the metadata of an exported file.

    Args:
        function: `SearchFunction`.
        source_tokenizer: `SentencePieceTokenizer` to store in the file, or `None`.
        target_tokenizer: `SentencePieceTokenizer` to store in the file, or `None`.
        card: `ModelCard` with the languages, or `None`.

    Returns:
        Dict of strings.
    """
    target_tokenizer, card = target_tokenizer or source_tokenizer, card or ModelCard()
    settings = {
        "kind": "generation",
        "inputs": {
            name: {
                "kind": input_kind(each),
                "dtype": each.dtype,
                "shape": list(function.dimensions[name]),
            }
            for name, each in function.inputs.items()
        },
        "source": _side(function.source, source_tokenizer, card.source_language),
        "target": _side(function.target, target_tokenizer, card.target_language),
        "search": _search(function),
        "versions": _versions(),
    }
    entries = {f"{PREFIX}format": FORMAT, f"{PREFIX}settings": _json(settings)}
    if source_tokenizer is not None:
        entries[f"{PREFIX}source_tokenizer"] = _base64(source_tokenizer)
    if target_tokenizer is not None and (
        source_tokenizer is None or target_tokenizer.model != source_tokenizer.model
    ):
        entries[f"{PREFIX}target_tokenizer"] = _base64(target_tokenizer)
    # A damaged vocabulary can crash SentencePiece, so the runtime verifies this checksum first.
    content = json.dumps(entries, sort_keys=True).encode()
    entries[f"{PREFIX}checksum"] = hashlib.sha256(content).hexdigest()
    return entries


def describe_card(card: Any = None, report: Any = None) -> Any:
    """Returns the metadata for users, which can be added to a finished file.

    Args:
        card: `ModelCard`, or `None`.
        report: `ParityReport` of the comparison with Keras, or `None`.

    Returns:
        Dict of strings, empty if there is neither a card nor a report.
    """
    entries = (card or ModelCard()).entries()
    entries = {name: value for name, value in entries.items() if not name.endswith("_language")}
    if report is not None:
        entries["parity"] = report.entries()
    return {f"{PREFIX}card": _json(entries)} if entries else {}


def input_kind(tensor: Any) -> str:
    """Returns the kind of a symbolic input: `"ids"`, `"image"` or `"features"`."""
    if len(tensor.shape) == 2 and "int" in tensor.dtype:
        return "ids"
    is_image = len(tensor.shape) == 4 and tensor.shape[-1] in (1, 3, 4)
    return "image" if is_image else "features"


def _side(side, tokenizer, language):
    if side is None:
        return None
    return {
        **dataclasses.asdict(side),
        **_tokenizer_size(tokenizer),
        "tokenizer": "none" if tokenizer is None else "sentencepiece",
        "language": language,
    }


def _tokenizer_size(tokenizer):
    if not getattr(tokenizer, "has_extra_pieces", False):
        return {}
    return {"tokenizer_vocabulary_size": tokenizer.vocabulary_size}


def _search(function):
    """Returns the settings of the search, with the names of its inputs under `"inputs"`."""
    config = function.search.get_config()
    names = {spec.name for spec in function.signature}
    return {
        "class": type(function.search).__name__,
        "inputs": [name for name in SEARCH_INPUTS if name in names],
        **{name: value for name, value in config.items() if name not in LEFT_OUT},
        "beam_width": function.beam_width,
        "num_hypotheses": function.num_hypotheses,
    }


def _base64(tokenizer):
    return base64.b64encode(tokenizer.model).decode()


def _json(value):
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value):
    """Replaces numbers that JSON cannot represent by strings such as "inf"."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    is_other = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_other else value


def _versions():
    versions = {}
    for distribution in ("keras-attn", "keras", "tensorflow", "tf2onnx", "onnx"):
        try:
            versions[distribution] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            # The package is a source tree, or has another name, such as tensorflow-cpu.
            continue
    return versions
