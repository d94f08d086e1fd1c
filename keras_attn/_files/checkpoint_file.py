"""One file of arrays and facts, written whole or not at all, and never half read."""

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
    """Makes a directory if need be, and raises an `OSError` if nothing can be written to it."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(
            f"Expected the path of a directory. Received: {str(directory)!r}, which is a file or "
            "in a file. Choose another path."
        ) from error
    tempfile.TemporaryFile(dir=directory).close()


def write_checkpoint(
    path: str | PathLike[str],
    arrays: Sequence[Any],
    facts: dict[str, Any],
    like: str | PathLike[str] | None = None,
) -> None:
    """Writes arrays (a list) and facts (a dict that JSON can hold) to `path`.

    `like` is as for `atomic_replace`.
    """
    # NumPy files cannot hold bfloat16.
    arrays = [
        array.astype("float32") if array.dtype.name == "bfloat16" else array for array in arrays
    ]
    entries = {str(index): array for index, array in enumerate(arrays)}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with atomic_replace(path, like=like) as partial, open(partial, "wb") as stream:
        np.savez(stream, facts=np.array(json.dumps(facts)), **entries)


def read_checkpoint(path: str | PathLike[str]) -> tuple[list[Any], dict[str, Any]]:
    """Reads what `write_checkpoint` wrote.

    Returns:
        `(arrays, facts)`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged.
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
    # zlib, zipfile, NumPy and JSON each have errors of their own for bytes that make no sense.
    except Exception as error:
        raise ValueError(
            f"Expected a checkpoint. Received: path={str(Path(path))!r}, a damaged file ({error})."
        ) from error
