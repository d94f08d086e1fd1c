"""Writes LiteRT files: a model, followed by a zip archive with the metadata."""

import base64
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

from keras_attn.export._formats.file_metadata import PREFIX

METADATA, CARD = "keras_attn.json", "card.json"
"""Names of files in the archive."""

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a LiteRT file."""

_CARD = f"{PREFIX}card"
_TOKENIZERS = {
    "source": f"{PREFIX}source_tokenizer",
    "target": f"{PREFIX}target_tokenizer",
}
_SUFFIXES = {"sentencepiece": "spm", "tokenizers": "tokenizer.json"}


def refuse_other_file(path: Path) -> None:
    """Raises an error if a path names a file that is neither empty nor a LiteRT file.

    Args:
        path: Path of the file that an export would replace.

    Raises:
        FileExistsError: If the file has another format.
    """
    if not path.is_file():
        return
    with open(path, "rb") as file:
        start = file.read(8)
    if start and start[4:] != IDENTIFIER:
        raise FileExistsError(
            f"Expected the path of a new file, or of a LiteRT file to replace. Received: {path}, a "
            "file of another kind. Choose another path, or delete the file."
        )


def write_litert_file(path: Path, model: bytes, metadata: Mapping[str, str]) -> None:
    """Writes a LiteRT model and its metadata to a file.

    The interpreter of LiteRT reads only the model. Programs for zip archives can read the rest: the
    tokenizers in their original file formats, the model card, and all other metadata in
    `keras_attn.json`.

    Args:
        path: Path of the file.
        model: Bytes of the model.
        metadata: Dict of strings from `describe` and `describe_card`. Empty for a file without
            metadata.
    """
    path.write_bytes(model)
    if not metadata:
        return
    # Mode "a" appends an archive to a file that is not an archive. Positions in the archive count
    # from the start of the file.
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(model, metadata).items():
            # A fixed time makes exports of the same model equal.
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def _files(model: bytes, metadata: Mapping[str, str]) -> dict[str, str | bytes]:
    """Returns a dict from the names of the files in the archive to their content."""
    entries, files = dict(metadata), {}
    if _CARD in entries:
        files[CARD] = entries.pop(_CARD)
    settings = json.loads(entries.get(f"{PREFIX}settings", "{}"))
    for side, key in _TOKENIZERS.items():
        if key in entries:
            suffix = _SUFFIXES[settings[side]["tokenizer"]]
            files[f"{side}.{suffix}"] = base64.b64decode(entries.pop(key))
    entries[f"{PREFIX}model_checksum"] = hashlib.sha256(model).hexdigest()
    return {METADATA: json.dumps(entries, indent=1), **files}
