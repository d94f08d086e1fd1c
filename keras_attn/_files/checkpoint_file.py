"""Checkpoint files with arrays and metadata, written atomically and verified when they are read."""

import json
import tempfile
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace


def require_directory(directory: str | PathLike[str]) -> None:
    """Creates a directory if necessary, and raises an `OSError` if it is not writable."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(
            f"Expected the path of a directory. Received: the path of a file, {str(directory)!r}. "
            "Choose another path."
        ) from error
    tempfile.TemporaryFile(dir=directory).close()


def write_checkpoint(
    path: str | PathLike[str],
    arrays: Sequence[Any],
    facts: dict[str, Any],
    like: str | PathLike[str] | None = None,
) -> None:
    """Writes arrays and metadata to a file.

    Args:
        path: Path of the file.
        arrays: List of NumPy arrays.
        facts: Dict of metadata that JSON can represent.
        like: Path of a file whose mode and owner are copied, see `atomic_replace`. Defaults to
            `None`.
    """
    # npz files do not support bfloat16.
    arrays = [
        array.astype("float32") if array.dtype.name == "bfloat16" else array for array in arrays
    ]
    entries = {str(index): array for index, array in enumerate(arrays)}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_replace(path, like=like) as partial, open(partial, "wb") as stream:
        np.savez(stream, facts=np.array(json.dumps(facts)), **entries)


def read_checkpoint(path: str | PathLike[str]) -> tuple[list[Any], dict[str, Any]]:
    """Reads a file written by `write_checkpoint`.

    Args:
        path: Path of the file.

    Returns:
        Tuple of the arrays and the metadata.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                raise ValueError(f"wrong checksum of {damaged}")
        with np.load(path, allow_pickle=False) as entries:
            facts = json.loads(entries["facts"].item())
            return [entries[str(index)] for index in range(len(entries.files) - 1)], facts
    except FileNotFoundError:
        raise
    # zlib, zipfile, NumPy and JSON raise different errors for invalid bytes.
    except Exception as error:
        raise ValueError(
            f"Expected a checkpoint. Received: path={str(Path(path))!r}, a damaged file ({error})."
        ) from error
