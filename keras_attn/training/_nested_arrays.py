"""Nested arrays whose first axis is the axis of rows, such as `(x, y, sample_weight)`."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np


def checksum_of_batch(batch: object) -> str:
    """Returns the SHA-256 of the shapes and contents of nested arrays or tensors."""
    checksum = hashlib.sha256()
    for path, value in keras.tree.flatten_with_path(batch):
        if value is None:
            continue
        array = np.asarray(keras.ops.convert_to_numpy(value))
        checksum.update(f"{path} {array.dtype} {array.shape} ".encode())
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        checksum.update(content)
    return checksum.hexdigest()


def is_dense(data: object) -> bool:
    """Returns whether data consist of arrays, tensors or pandas objects, none of them sparse."""
    leaves = keras.tree.flatten(data)
    return all(leaf is None or hasattr(leaf, "__array__") for leaf in leaves)


def as_arrays(data: object) -> Any:
    """Converts nested tensors and pandas objects to NumPy arrays, with floats in `floatx`.

    A series becomes a column `(rows, 1)`, as in `model.fit`.
    """

    def convert(value: Any) -> np.ndarray:
        is_series = hasattr(value, "iloc") and value.ndim == 1
        array = keras.ops.convert_to_numpy(value) if keras.ops.is_tensor(value) else value
        array = np.asarray(array)
        if not array.ndim:
            raise ValueError(
                f"Expected arrays with an axis of rows. Received: {value!r}, of shape (). Pass one "
                "row for each example."
            )
        if array.dtype != object and keras.backend.is_float_dtype(array.dtype):
            array = array.astype(keras.config.floatx(), copy=False)
        return array[:, None] if is_series else array

    return map_arrays(data, convert)


def num_rows(data: tuple[object, object, object]) -> int:
    """Returns the number of rows of nested arrays `(x, y, sample_weight)`.

    Raises:
        ValueError: If there are no arrays, or their numbers of rows differ.
    """
    lengths = {}
    for name, part in zip(("x", "y", "sample_weight"), data, strict=True):
        arrays = [array for array in keras.tree.flatten(part) if array is not None]
        if arrays:
            lengths[name] = [len(array) for array in arrays]
    different = {length for part in lengths.values() for length in part}
    if len(different) != 1:
        raise ValueError(
            f"Expected arrays with equal numbers of rows. Received: {lengths} rows. Pass one row "
            "of each array for each example."
        )
    return different.pop()


def split_rows(data: tuple[object, object, object], validation_split: float) -> tuple[Any, Any]:
    """Divides the rows of nested arrays as the argument `validation_split` of `model.fit`.

    Returns:
        Tuple of the first rows, for training, and the last rows, for validation.

    Raises:
        ValueError: If one of the parts is empty.
    """
    rows = num_rows(data)
    end = math.floor(rows * (1.0 - validation_split))
    if not 0 < end < rows:
        raise ValueError(
            "Expected validation_split to leave rows for training and validation. Received: "
            f"validation_split={validation_split}, {rows} rows. Use a different share."
        )
    return map_arrays(data, lambda array: array[:end]), map_arrays(data, lambda array: array[end:])


def map_arrays(data: object, function: Callable[..., object]) -> Any:
    """Applies a function to all arrays of a nested structure, without its `None`s."""
    return keras.tree.map_structure(lambda array: None if array is None else function(array), data)
