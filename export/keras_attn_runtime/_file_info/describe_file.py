"""Describes a model file or directory in any known format."""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format import file_checksum, metadata_checksum
from keras_attn_runtime._file_format.json_values import is_object
from keras_attn_runtime._file_format.litert_container import (
    IDENTIFIER,
    LiteRTContainer,
    is_exported_litert_file,
)
from keras_attn_runtime._file_format.metadata_entries import describe_kind
from keras_attn_runtime._file_info.read_metadata import read_onnx_file
from keras_attn_runtime._file_info.tensor_value import Signatures, TensorValue
from keras_attn_runtime._file_info.tflite_file import TfliteFile
from keras_attn_runtime._files.foreign_files import identify_foreign
from keras_attn_runtime._files.regular_file import map_file, require_regular_file

PREFIX = "keras_attn."
TOKENIZER = "_tokenizer"
CHECKSUMS = (
    metadata_checksum.KEY,
    metadata_checksum.MODEL_KEY,
    file_checksum.KEY,
    file_checksum.WEIGHTS_KEY,
    f"{PREFIX}start",
)
LONGEST_TEXT = 200
"""Maximum number of characters to show for a metadata value."""


def describe_file(path: str | PathLike[str]) -> dict[str, Any]:
    """Describes a model file or directory.

    ONNX and TensorFlow Lite (LiteRT) files are described. For SavedModels, Keras files, training
    runs and other known formats, the description contains only the `kind`.

    Args:
        path: string or path.

    Returns:
        JSON-serializable dict with the string `kind` and, depending on the format, `inputs`,
        `outputs` and `signatures` (`name`, `dtype`, `shape` and `optional` for each tensor),
        `precision`, `weights` (number of elements by dtype), `format`, `settings`, `tokenizers`
        (for source and target), `content` and `run_with` (strings: what the file contains, and how
        to run it), `metadata`, `versions`, `producer`, `opsets`, `checksum`.

    Raises:
        OSError: if the file does not exist or cannot be read.
        ModelFileError: if the file is damaged or its format is unknown.
    """
    path = Path(path)
    if path.is_dir():
        return _describe_directory(path)
    require_regular_file(path)
    kind, _ = identify_foreign(path)
    if kind is None:
        return _describe_onnx(path)
    if is_exported_litert_file(path):
        return _describe_litert(path)
    content = map_file(path)
    if bytes(content[4:8]) == IDENTIFIER:
        return {"kind": kind, **_describe_tflite(content)}
    return {"kind": kind}


def _describe_directory(path: Path) -> dict[str, Any]:
    if (path / "model.onnx").is_file():
        return _describe_onnx(path / "model.onnx")
    kind, _ = identify_foreign(path)
    if kind is None:
        raise ModelFileError(
            "Expected a file, or a directory with a model. Received: "
            f"{str(path)!r}, a directory without a model. Name a file in this directory."
        )
    if (path / "start.onnx").is_file():
        return _describe_onnx(path / "start.onnx") | {"kind": f"{kind}; this is its start.onnx"}
    return {"kind": kind}


def _describe_onnx(path: Path) -> dict[str, Any]:
    file = read_onnx_file(path)
    if f"{PREFIX}format" in file.metadata:
        kind = "an ONNX file exported by keras-attn"
    elif f"{PREFIX}start" in file.metadata:
        kind = f"a part of an export of `onnx-steps`, which belongs to {path.parent / 'start.onnx'}"
    elif "ai.onnx.contrib" in file.opsets:
        kind = "an ONNX file that needs onnxruntime-extensions, such as an export of `onnx-text`"
    else:
        kind = "an ONNX file without keras-attn metadata, of another program or an older release"
    return {
        "kind": kind,
        "inputs": _values(file.inputs),
        "outputs": _values(file.outputs),
        "precision": file.precision,
        "weights": dict(file.num_weights.most_common()),
        "weights_in_another_file": file.has_external_data or None,
        **_describe_metadata(file.metadata),
        "producer": file.producer,
        "opsets": file.opsets,
        "checksum": "matches the file" if file_checksum.KEY in file.metadata else None,
    }


def _describe_metadata(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Returns keras-attn entries, parsed as JSON, and all other entries as strings."""
    description: dict[str, Any] = {}
    texts: dict[str, str] = {}
    tokenizers: dict[str, dict[str, Any]] = {}
    for key, value in metadata.items():
        name = key.removeprefix(PREFIX)
        if key in CHECKSUMS:
            continue
        if name != key and name.endswith(TOKENIZER):
            tokenizers[name.removesuffix(TOKENIZER)] = {"bytes": _num_bytes(value)}
        elif name != key:
            description[name] = _json_or_text(value)
        else:
            texts[key] = value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]} ..."
    settings = description.get("settings")
    if is_object(settings):
        if "kind" in settings:  # not in format 1
            content, run_with = describe_kind(settings)
            description = {"content": content, "run_with": run_with, **description}
        description["versions"] = settings.pop("versions", {})
        for side, entries in tokenizers.items():
            entries |= _tokenizer_options(settings.get(side), description.get("format"))
    return {**description, "tokenizers": tokenizers, "metadata": texts}


def _tokenizer_options(side: object, number: object) -> dict[str, Any]:
    """Returns tokenizer options, with their defaults, except those without effect."""
    if not is_object(side):
        return {}
    # Before format 3, a `tokenizer.json` found all special tokens in texts.
    is_old = isinstance(number, int) and number < 3 and side.get("tokenizer") == "tokenizers"
    options: dict[str, Any] = {
        "parse_special_tokens": side.get("parse_special_tokens", is_old),
        "added_tokens": len(side.get("added_tokens") or ()),
        "space_token_id": side.get("space_token_id"),
        "clean_up_spaces": side.get("clean_up_spaces", False),
    }
    is_default = {"added_tokens": 0, "space_token_id": None, "clean_up_spaces": False}
    return {name: value for name, value in options.items() if is_default.get(name, ...) != value}


def _num_bytes(value: str) -> int:
    try:
        return len(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        return len(value)


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _describe_litert(path: Path) -> dict[str, Any]:
    container = LiteRTContainer.from_path(path)
    model = _describe_tflite(memoryview(container.model))
    has_checksum = metadata_checksum.MODEL_KEY in container.metadata
    return {
        "kind": "a LiteRT file exported by keras-attn",
        **model,
        **_describe_metadata(container.metadata),
        "checksum": "matches the file" if has_checksum else None,
    }


def _describe_tflite(content: memoryview) -> dict[str, Any]:
    file = TfliteFile.from_bytes(content)
    return {
        "signatures": _signatures(file.signatures),
        "precision": file.precision,
        "weights": dict(file.num_weights.most_common()),
        "description": file.description,
        "metadata_buffers": file.metadata,
    }


def _signatures(signatures: Signatures) -> dict[str, Any]:
    return {
        name: {"inputs": _values(inputs), "outputs": _values(outputs)}
        for name, (inputs, outputs) in signatures.items()
    }


def _values(values: Iterable[TensorValue]) -> list[dict[str, Any]]:
    return [asdict(value) for value in values]
