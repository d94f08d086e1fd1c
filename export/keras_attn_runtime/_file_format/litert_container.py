"""Reads LiteRT files: a FlatBuffer, followed by a zip archive with the metadata and tokenizers."""

import base64
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Self

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.json_values import is_object
from keras_attn_runtime._file_format.metadata_checksum import MODEL_KEY, verify_checksum
from keras_attn_runtime._files.foreign_files import describe_foreign
from keras_attn_runtime._files.regular_file import require_regular_file

IDENTIFIER = b"TFL3"  # at byte 4 of a FlatBuffer
METADATA = "keras_attn.json"
CARD = "card.json"
TOKENIZER_SUFFIXES = (".spm", ".tokenizer.json")
SUFFIX = ".tflite"
LARGEST_ENTRY = 2**28
"""Maximum number of bytes in an entry: a damaged archive can request any amount of memory."""

_EXPORT = "Export it: `keras-attn export litert RUN model.tflite`."


@dataclass(frozen=True)
class LiteRTContainer:
    """A LiteRT file exported by keras_attn, read into memory.

    Attributes:
        model: bytes, the FlatBuffer.
        metadata: dict of strings, with the same keys as ONNX file metadata.
    """

    model: bytes
    metadata: dict[str, str]

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Self:
        """Reads a file, and verifies its checksums.

        LiteRT can crash on a damaged model, and SentencePiece on a damaged tokenizer. So the
        checksums are verified before they read the file.

        Args:
            path: string or path.

        Returns:
            `LiteRTContainer`.

        Raises:
            OSError: if the file does not exist or cannot be read.
            ModelFileError: if the file is damaged, or was not exported by keras_attn.
        """
        require_regular_file(path)
        content = Path(path).read_bytes()
        archive = _open_archive(content)
        if archive is None:
            raise ModelFileError(_explain(path, content))
        with archive:
            model = content[: min(entry.header_offset for entry in archive.infolist())]
            metadata = _read_metadata(path, archive)
        _verify_model(path, model, metadata)
        verify_checksum(metadata)
        return cls(model, metadata)


def is_litert_file(path: str | PathLike[str]) -> bool:
    """Returns whether a file is a LiteRT file, by its name or its first bytes."""
    path = Path(path)
    if path.suffix == SUFFIX:
        return not path.is_dir()
    try:
        require_regular_file(path)
        with open(path, "rb") as file:
            return file.read(8)[4:] == IDENTIFIER
    except (OSError, ModelFileError):
        return False


def is_exported_litert_file(path: str | PathLike[str]) -> bool:
    """Returns whether a file ends with an archive that contains keras_attn metadata."""
    try:
        with zipfile.ZipFile(path) as archive:
            return METADATA in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return False


def _open_archive(content: bytes) -> zipfile.ZipFile | None:
    """Returns the archive at the end of the file, or `None` without an archive with metadata."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return None
    is_inside = all(0 < entry.header_offset < len(content) for entry in archive.infolist())
    return archive if is_inside and METADATA in archive.namelist() else None


def _explain(path: str | PathLike[str], content: bytes) -> str:
    """Returns the message for a file without metadata."""
    if content[4:8] == IDENTIFIER:
        return (
            f"Expected a LiteRT file exported by keras_attn. Received: {str(path)!r}, a TensorFlow "
            f"Lite file without {METADATA}. It is cut off, or another program wrote it, or an "
            "older release of keras-attn. Run a model without a search with ai_edge_litert, or "
            f"export it again. If it has a search: {_EXPORT}"
        )
    received = describe_foreign(path) or f"which starts with {content[:8]!r}. {_EXPORT}"
    return f"Expected a LiteRT file. Received: {str(path)!r}, {received}"


def _read_metadata(path: str | PathLike[str], archive: zipfile.ZipFile) -> dict[str, str]:
    try:
        entries: object = json.loads(_read(archive, METADATA))
        if not is_object(entries) or not all(isinstance(item, str) for item in entries.values()):
            raise TypeError(f"{METADATA} is not a JSON object of strings")
        metadata: dict[str, str] = dict(entries)
        names = archive.namelist()
        for side in ("source", "target"):
            for name in (f"{side}{suffix}" for suffix in TOKENIZER_SUFFIXES):
                if name in names:
                    tokenizer = base64.b64encode(_read(archive, name)).decode()
                    metadata[f"keras_attn.{side}_tokenizer"] = tokenizer
        if CARD in names:
            metadata["keras_attn.card"] = _read(archive, CARD).decode()
    except Exception as error:  # a damaged archive can raise any decompressor exception
        raise ModelFileError(
            f"Expected a LiteRT file with readable metadata. Received: {str(path)!r} ({error}). "
            "The file is damaged; export or copy it again."
        ) from error
    return metadata


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    size = archive.getinfo(name).file_size
    if size > LARGEST_ENTRY:
        raise ValueError(f"{name} has {size} bytes, more than {LARGEST_ENTRY}")
    return archive.read(name)


def _verify_model(path: str | PathLike[str], model: bytes, metadata: dict[str, str]) -> None:
    expected = metadata.get(MODEL_KEY)
    if expected is not None:
        received = hashlib.sha256(model).hexdigest()
        if received != expected:
            raise ModelFileError(
                f"Expected a model with the checksum {expected!r}. Received: {received!r}. The "
                "file is damaged, or was changed after the export; export or copy it again. If it "
                f"was changed on purpose, remove {MODEL_KEY!r} from {METADATA}."
            )
    elif model[4:8] != IDENTIFIER:
        raise ModelFileError(
            f"Expected a LiteRT file. Received: {str(path)!r}, whose first bytes are "
            f"{bytes(model[:8])!r}. The file is damaged; export or copy it again."
        )
