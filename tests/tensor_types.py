"""Checked by basedpyright, never run: which values match the types of `keras_attn._types`.

An error that is expected and does not occur is an unnecessary comment, which is an error too.
"""

import jax
import keras
import numpy as np

from keras_attn._types import Mask, Tensor, TensorLike


def takes_tensor(value: Tensor) -> None: ...


def takes_tensor_like(value: TensorLike) -> None: ...


def takes_mask(value: Mask) -> None: ...


def tensors_of_backends_match(
    jax_array: jax.Array, array: np.ndarray, symbolic: keras.KerasTensor, variable: keras.Variable
) -> None:
    takes_tensor(jax_array)
    takes_tensor(array)
    takes_tensor(symbolic)
    takes_tensor(variable)
    takes_mask(jax_array)
    takes_mask(array)


def values_that_convert_match(array: np.ndarray) -> None:
    takes_tensor_like(array)
    takes_tensor_like([[1.0, 2.0], [3.0, 4.0]])
    takes_tensor_like(1)


def other_values_do_not_match() -> None:
    takes_tensor("text")  # pyright: ignore[reportArgumentType]
    takes_tensor(1.0)  # pyright: ignore[reportArgumentType]
    takes_tensor([1.0])  # pyright: ignore[reportArgumentType]
    takes_tensor_like(None)  # pyright: ignore[reportArgumentType]
    takes_mask("mask")  # pyright: ignore[reportArgumentType]
