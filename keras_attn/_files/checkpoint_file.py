"""Checkpoint files with arrays and metadata, written atomically and verified on reading."""

import json
import tempfile
import zipfile
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace

_ARRAY = "facts.array"


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
        path: File path.
        arrays: List of NumPy arrays.
        facts: Dict of metadata that JSON can represent. It can also contain NumPy arrays.
        like: Path of a file whose mode and owner are copied, see `atomic_replace`. Defaults to
            `None`.
    """
    entries = {str(index): array for index, array in enumerate(arrays)}
    names = {}

    def entry(value):
        """Stores a metadata array once and returns its name."""
        if isinstance(value, np.generic):
            return value.item()
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            raise TypeError(
                "Expected metadata of NumPy arrays and values that JSON can represent. Received: "
                f"a value of type {type(value).__name__}. Convert it."
            )
        name = names.setdefault(id(value), f"{_ARRAY}{len(names)}")
        entries[name] = value
        return {_ARRAY: name}

    entries["facts"] = np.array(json.dumps(facts, default=entry))
    # npz files do not support bfloat16.
    for name, array in entries.items():
        if array.dtype.name == "bfloat16":
            entries[name] = array.astype("float32")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_replace(path, like=like) as partial, open(partial, "wb") as stream:
        np.savez(stream, **entries)


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

            def array(value):
                return entries[value[_ARRAY]] if _ARRAY in value else value

            facts = json.loads(entries["facts"].item(), object_hook=array)
            size = sum(name.isdigit() for name in entries.files)
            return [entries[str(index)] for index in range(size)], facts
    except FileNotFoundError:
        raise
    # zlib, zipfile, NumPy and JSON raise different errors for invalid bytes.
    except Exception as error:
        raise ValueError(
            f"Expected a checkpoint. Received: path={str(Path(path))!r}, a damaged file ({error})."
        ) from error
