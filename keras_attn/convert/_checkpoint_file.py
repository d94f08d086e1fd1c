"""Files in a checkpoint folder: content, JSON, links and Git LFS pointers."""

import json
from pathlib import Path
from typing import Any

from keras_attn.convert._conversion_error import ConversionError

LFS_HEADER = b"version https://git-lfs.github.com/spec/"
"""First bytes of the files that `git clone` writes for large files without Git LFS."""


def check_file(path: Path) -> None:
    """Raises a `ConversionError` if a file is a Git LFS pointer instead of the content."""
    with path.open("rb") as file:
        is_pointer = file.read(len(LFS_HEADER)) == LFS_HEADER
    if is_pointer:
        raise ConversionError(
            f"Expected the content of a file. Received: {str(path)!r}, a Git LFS pointer, which "
            "`git clone` writes without Git LFS. Run `git lfs pull` in the folder, or download "
            "it with `hf download`."
        )


def read_bytes(folder: Path, name: str) -> bytes | None:
    """Reads a file that becomes part of the run directory.

    Links are followed within the folder and, in the huggingface_hub cache, to the blobs of the same
    repository. Links to other places are rejected: a downloaded folder must not be able to copy a
    private file into a run directory or an exported file.

    Args:
        folder: `Path`, the checkpoint.
        name: String, file name.

    Returns:
        Bytes, or `None` without this file.

    Raises:
        ConversionError: If the file is a link out of the folder, or a Git LFS pointer.
    """
    path = folder / name
    if not path.is_file():
        return None
    if not any(path.resolve().is_relative_to(root) for root in _roots(folder)):
        raise ConversionError(
            f"Expected the file {str(path)!r}. Received: a link to {str(path.resolve())!r}, which "
            "is outside of the folder. Copy the folder with its files, for example with `cp -rL "
            f"{folder.name} COPY`."
        )
    check_file(path)
    return path.read_bytes()


def read_json(folder: Path, name: str) -> dict[str, Any] | None:
    """Returns the object in a checkpoint's JSON file, or `None` without this file.

    Raises:
        ConversionError: If `read_bytes` rejects the file, or it does not contain a JSON object.
    """
    content = read_bytes(folder, name)
    if content is None:
        return None
    path = str(folder / name)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConversionError(
            f"Expected JSON in {path!r}. Received: {error}. Copy the file again."
        ) from error
    if not isinstance(value, dict):
        raise ConversionError(
            f"Expected a JSON object in {path!r}. Received: {type(value).__name__}. "
            "Copy the file again."
        )
    return value


def _roots(folder):
    """Returns the folders that may contain checkpoint files."""
    folder = folder.resolve()
    roots = [folder]
    # The huggingface_hub cache: snapshots/COMMIT/config.json is a link to ../../blobs/HASH.
    for parent in folder.parents:
        blobs = parent.parent / "blobs"
        if parent.name == "snapshots" and blobs.is_dir() and not blobs.is_symlink():
            roots.append(blobs)
    return roots
