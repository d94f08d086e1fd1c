"""Files of a checkpoint folder: content, JSON, links and Git LFS pointers."""

import json
from pathlib import Path
from typing import Any

from keras_attn.convert.conversion_error import ConversionError

LFS_HEADER = b"version https://git-lfs.github.com/spec/"
"""First bytes of a file that `git clone` writes in place of a large file, without Git LFS."""


def check_file(path: Path) -> None:
    """Raises a `ConversionError` if a file is a pointer of Git LFS instead of the content."""
    with path.open("rb") as file:
        is_pointer = file.read(len(LFS_HEADER)) == LFS_HEADER
    if is_pointer:
        raise ConversionError(
            f"Expected the content of {str(path)!r}. Received: a Git LFS pointer, which `git "
            "clone` writes without Git LFS. Run `git lfs pull` in the folder, or download it with "
            "`hf download`."
        )


def read_bytes(folder: Path, name: str) -> bytes | None:
    """Reads a file whose content becomes a part of the run directory.

    A link is followed to a file in the folder and, in the cache of huggingface_hub, to a file among
    the blobs of the same repository. Links to other places are refused: a downloaded folder must
    not be able to copy a private file into a run directory or an exported file.

    Args:
        folder: `Path` of the checkpoint.
        name: String, name of the file.

    Returns:
        Bytes, or `None` if there is no such file.

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
    """Returns the object in a JSON file of a checkpoint, or `None` if there is no such file.

    Raises:
        ConversionError: If `read_bytes` refuses the file, or it does not contain a JSON object.
    """
    content = read_bytes(folder, name)
    if content is None:
        return None
    path = str(folder / name)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConversionError(
            f"Expected JSON in {path!r}. Received: {error}. Copy the file again."
        ) from error
    if not isinstance(found, dict):
        raise ConversionError(
            f"Expected a JSON object in {path!r}. Received: {type(found).__name__}. "
            "Copy the file again."
        )
    return found


def _roots(folder):
    """Returns the folders in which the files of a checkpoint may be."""
    folder = folder.resolve()
    roots = [folder]
    # The cache of huggingface_hub: snapshots/COMMIT/config.json is a link to ../../blobs/HASH.
    for parent in folder.parents:
        blobs = parent.parent / "blobs"
        if parent.name == "snapshots" and blobs.is_dir() and not blobs.is_symlink():
            roots.append(blobs)
    return roots
