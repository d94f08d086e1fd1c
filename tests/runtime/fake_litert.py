"""Writes small LiteRT files with the interface of an exported translator.

Their models are those of `litert_files/make.py`, which behave like `fake_model`. This module adds
the archive with metadata and tokenizers.
"""

import base64
import hashlib
import io
import json
import zipfile
from pathlib import Path

from tests.runtime.fake_model import metadata, with_checksum

MODELS = Path(__file__).parent / "litert_files"
INPUTS = {"copy": [], "copy-batch-4": ["prefix_ids", "seeds"], "copy-any-batch": ["prefix_ids"]}
FIXED = "copy-fixed-sizes"
"""The model with 8 source ids and 12 target ids."""

SLOW_ID, ENDLESS_ID = 62, 63
"""Ids of no text: sources with them are translated for about a second, or for ever."""


def model_bytes(name="copy"):
    """Returns the bytes of one of the models, without an archive."""
    return (MODELS / f"{name}.tflite").read_bytes()


def archive_bytes(entries, compression=zipfile.ZIP_STORED):
    """Returns a zip archive with a dict of files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name, value in entries.items():
            archive.writestr(name, value)
    return content.getvalue()


def archive_entries(model, properties, with_model_checksum=True):
    """Returns the files of the archive for metadata as of an ONNX file."""
    entries = {"source_tokenizer": "source.spm", "target_tokenizer": "target.spm"}
    properties = dict(properties)
    files = {
        name: base64.b64decode(properties.pop(f"keras_attn.{key}"))
        for key, name in entries.items()
        if f"keras_attn.{key}" in properties
    }
    if "keras_attn.card" in properties:
        files["card.json"] = properties.pop("keras_attn.card").encode()
    if with_model_checksum:
        properties["keras_attn.model_checksum"] = hashlib.sha256(model).hexdigest()
    return {"keras_attn.json": json.dumps(properties).encode(), **files}


def litert_bytes(tokenizer, name="copy", with_model_checksum=True, properties=None, **settings):
    """Returns the bytes of a file, with the checksums that the exporter adds.

    Args:
        tokenizer: bytes of a SentencePiece model.
        name: string, one of `INPUTS`, or `FIXED`.
        with_model_checksum: bool, whether the file has the checksum of the model.
        properties: dict of strings, further metadata.
        **settings: see `fake_model.metadata`.
    """
    model = model_bytes(name)
    found = with_checksum(metadata(tokenizer, INPUTS.get(name, []), **settings))
    found |= properties or {}
    return model + archive_bytes(archive_entries(model, found, with_model_checksum))
