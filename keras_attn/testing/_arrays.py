"""Conversion of nested tensors to NumPy, and comparisons with helpful error messages."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops, tree

from keras_attn._serialization.plain_lists import plain_lists
from keras_attn._types import Tensor


def to_numpy(nested: object) -> Any:
    """Converts all tensors in a nested structure to NumPy arrays."""
    return tree.map_structure(ops.convert_to_numpy, nested)


def to_tensors(nested: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Converts all NumPy arrays in a nested structure to tensors."""
    return tree.map_structure(ops.convert_to_tensor, nested)


Layer = TypeVar("Layer", bound=keras.layers.Layer)


def randomize(layer: Layer, scale: float = 0.5, seed: int | None = 0) -> Layer:
    """Assigns normally distributed values to all weights, including biases. Returns the layer."""
    generator = np.random.default_rng(seed)
    layer.set_weights([generator.normal(0, scale, w.shape) for w in layer.trainable_weights])
    return layer


@contextlib.contextmanager
def dtype_policy(policy: str | keras.DTypePolicy) -> Iterator[None]:
    """Sets the dtype policy of layers that are created in the block."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def require(condition: object, message: str) -> None:
    """Raises an `AssertionError` if a condition is false, even with `python -O`."""
    if not condition:
        raise AssertionError(message)


@contextlib.contextmanager
def requirement(message: str) -> Iterator[None]:
    """Converts errors in the block to `AssertionError`s whose text begins with `message`."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{message} Received: {type(error).__name__}: {error}") from error


def assert_close(
    received: object, expected: object, tolerance: float = 1e-5, message: str = ""
) -> None:
    """Compares nested arrays. `tolerance` applies to relative and absolute differences.

    Args:
        received: Nested arrays.
        expected: Nested arrays.
        tolerance: Float. Defaults to `1e-5`.
        message: String, beginning of the error message. Defaults to `""`.

    Raises:
        AssertionError: If structures, shapes or values differ.
    """
    received, expected = plain_lists(received), plain_lists(expected)
    with requirement(message):
        tree.assert_same_structure(received, expected)
    for one, other in zip(tree.flatten(received), tree.flatten(expected), strict=True):
        one, other = (np.asarray(_array(nested), "float64") for nested in (one, other))
        np.testing.assert_allclose(
            one, other, rtol=tolerance, atol=tolerance, err_msg=message, verbose=not message
        )


def assert_identical(received: object, expected: object, message: str = "") -> None:
    """Raises an `AssertionError` unless nested arrays are equal, see `assert_close`."""
    for one, other in zip(tree.flatten(received), tree.flatten(expected), strict=True):
        one, other = _array(one), _array(other)
        np.testing.assert_array_equal(one, other, err_msg=message, verbose=not message)


def _array(leaf: Tensor | np.ndarray) -> np.ndarray:
    """Converts tensors to arrays. NumPy fails on PyTorch tensors with a gradient or on a GPU."""
    return ops.convert_to_numpy(leaf) if ops.is_tensor(leaf) else np.asarray(leaf)


def fill_masked_with_noise(array: np.ndarray, mask: np.ndarray, seed: int | None = 0) -> np.ndarray:
    """Replaces `(batch, time, features)` by large random values where the mask is `False`."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=array.shape).astype(array.dtype) * 100
    return np.where(mask[:, :, None], array, noise)


def pad_source(encoded: Mapping[str, np.ndarray], columns: int) -> dict[str, np.ndarray]:
    """Appends masked source positions with random values.

    Args:
        encoded: Dict with `encoder_outputs` `(batch, source, features)` and `encoder_mask`.
        columns: Int, number of positions.

    Returns:
        A dict with the same keys.
    """
    outputs, mask = encoded["encoder_outputs"], encoded["encoder_mask"]
    outputs = np.pad(outputs, [(0, 0), (0, columns), (0, 0)])
    mask = np.pad(mask, [(0, 0), (0, columns)])
    return {
        **encoded,
        "encoder_outputs": fill_masked_with_noise(outputs, mask),
        "encoder_mask": mask,
    }
