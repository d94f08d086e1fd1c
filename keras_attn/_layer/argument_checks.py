import functools
import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeGuard, TypeVar, cast

import keras
import numpy as np

from keras_attn._types import Tensor, TensorLike

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def accepts_numpy_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function so that numbers of NumPy among its arguments become those of Python.

    Keras refuses NumPy integers as sizes, and JSON refuses them in a configuration.
    """

    @functools.wraps(function)
    def with_python_numbers(*args: P.args, **kwargs: P.kwargs) -> R:
        untyped = cast(Callable[..., R], function)
        return untyped(*_python_numbers(args), **_python_numbers(kwargs))

    # Keras reads the arguments of a layer by `inspect.getfullargspec`, which sees no `__wrapped__`.
    cast(Any, with_python_numbers).__signature__ = inspect.signature(function)
    return with_python_numbers


def _python_numbers(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(_python_numbers(each) for each in value)
    if type(value) is dict:
        return {name: _python_numbers(each) for name, each in value.items()}
    return value


def known_values(tensor: TensorLike) -> np.ndarray | None:
    """The values as a NumPy array, or `None` for a symbolic tensor or one that is traced."""
    try:
        return keras.ops.convert_to_numpy(tensor)
    # What TensorFlow, JAX, PyTorch and Keras raise for tensors without values.
    except (TypeError, ValueError, RuntimeError):
        return None


def check_integers(name: str, values: Tensor | np.ndarray) -> None:
    """Raises a `ValueError` that names the argument unless a tensor has an integer dtype.

    An empty tensor may have any dtype: `np.array([[]])` is one of floats.
    """
    dtype = keras.backend.standardize_dtype(values.dtype)
    if "int" not in dtype and 0 not in tuple(values.shape):
        raise ValueError(
            f"Expected {name} of an integer dtype. Received: {name} with dtype={dtype!r}. Pass "
            f'keras.ops.cast({name}, "int32"), or keras.Input(..., dtype="int32") in a model.'
        )


def check_token_ids(**token_ids: int | Sequence[int]) -> None:
    """Raises a `ValueError` that names the argument unless token ids are integers of at least 0.

    Args:
        **token_ids: ids, or lists of ids, by the names of their arguments.
    """
    for name, value in token_ids.items():
        ids, kind = (value, "integers") if isinstance(value, list) else ([value], "an integer")
        if any(not isinstance(each, numbers.Integral) or each < 0 for each in ids):
            raise ValueError(
                f"Expected {name} to be {kind} of at least 0. Received: {name}={value!r}. Use "
                "token ids, for instance those of the special tokens of a tokenizer."
            )


def check_optional_token_ids(**token_ids):
    """As `check_token_ids`, where `None` stands for a token that there is not."""
    check_token_ids(**{name: value for name, value in token_ids.items() if value is not None})


def check_number(name, value, condition, expected, advice):
    """Raises a `ValueError` that names the argument unless it is a number in a range.

    Args:
        name: str, the argument.
        value: its value.
        condition: function that tells whether a number is in the range.
        expected: str, the range.
        advice: str, what to do.
    """
    if not is_number(value) or not condition(value):
        raise ValueError(
            f"Expected {name} to be a number {expected}. Received: {name}={value!r}. {advice}"
        )


def check_same_batch(layer: keras.layers.Layer, **inputs: Any) -> None:
    """Raises a `ValueError` if inputs of a layer have different batch sizes, where they are known.

    An input of batch size 1 is broadcast by most layers, so it is not refused.

    Args:
        layer: the layer, for the error.
        **inputs: tensors, dicts of tensors or `None`, by the names of their arguments.
    """
    shapes = {}
    for name, value in inputs.items():
        parts = value.items() if isinstance(value, dict) else [(None, value)]
        for key, part in parts:
            shape = tuple(getattr(part, "shape", ()))
            if shape:
                shapes[name if key is None else f"{name}[{key!r}]"] = shape
    if len({shape[0] for shape in shapes.values()} - {None, 1}) > 1:
        received = ", ".join(f"{name} with shape {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"Expected inputs of {type(layer).__name__} with one batch size. Received: {received}. "
            "Pass as many rows in each, or one row to share it."
        )


def check_same_time(value: Tensor | None, key: Tensor | None) -> None:
    """Raises a `ValueError` unless each value has a key, where the sizes are known."""
    if value is None or key is None or len(value.shape) != 3 or len(key.shape) != 3:
        return
    if None not in (value.shape[1], key.shape[1]) and value.shape[1] != key.shape[1]:
        raise ValueError(
            "Expected a key for each value: one size of their time axis. Received: value with "
            f"shape {tuple(value.shape)}, key with shape {tuple(key.shape)}. Pass keys and values "
            "of the same positions."
        )


def check_sequence_shape(name: str, shape: Any) -> None:
    """Raises a `ValueError` that names the argument unless a shape is `(batch, time, features)`."""
    if len(shape) != 3:
        raise ValueError(
            f"Expected {name} of shape (batch, time, features). Received: {name} with shape "
            f"{tuple(shape)}. Reshape {name}, or add the missing axis."
        )


def check_positive_integer(name: str, value: object) -> None:
    """Raises a `ValueError` that names the argument unless it is an integer of at least 1."""
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer. Received: {name}={value!r}.")


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether a value is a real number, of Python or NumPy."""
    return isinstance(value, numbers.Real)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number, and neither infinite nor NaN."""
    return is_number(value) and math.isfinite(value)


def check_second_input(
    layer: keras.layers.Layer, name: str, value: T | None, alternative: str = ""
) -> T:
    """Raises `ValueError` if a layer with two sequences as inputs is given the first one alone.

    Args:
        layer: the layer, for the error.
        name: str, the call argument.
        value: its value, or its shape.
        alternative: str, a sentence on how to do without it.

    Returns:
        The value.
    """
    if value is None:
        raise ValueError(
            f"{type(layer).__name__} needs {name} besides its first input. Received: {name}=None. "
            f"Pass {name}.{alternative} A wrapper such as TimeDistributed passes one input and its "
            "mask: call the layer without it, with the axis of the wrapper merged into the batch "
            "axis of all inputs by keras.ops.reshape."
        )
    return value


def check_layers(**layers: object) -> None:
    """Raises a `ValueError` that names the argument unless it is a layer or `None`.

    Args:
        **layers: values by the names of their arguments.
    """
    for name, value in layers.items():
        if value is not None and not isinstance(value, keras.layers.Layer):
            kind = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
            raise ValueError(
                f"Expected {name} to be a Keras layer or None. Received: {name}={kind}. Create the "
                f"layer first and pass {name}=layer."
            )


def list_of_layers(name: str, layers: Any, kind: type[T]) -> list[T]:
    """Returns layers as a list; raises a `ValueError` that names the argument for anything else.

    Args:
        name: str, the argument.
        layers: its value, an iterable of at least one layer.
        kind: class of the layers.
    """
    received = repr(layers)
    if hasattr(layers, "__iter__") and not isinstance(layers, str):
        layers = list(layers)
        if layers and all(isinstance(each, kind) for each in layers):
            return layers
        received = [getattr(each, "__name__", type(each).__name__) for each in layers]
    raise ValueError(
        f"Expected {name} to be a list of at least one {kind.__name__}. Received: "
        f"{name}={received}. Create the layers and pass {name}=[first, second]."
    )


def check_compute_dtype(layer: keras.layers.Layer, **parts: object) -> None:
    """Raises a `ValueError` unless a layer and its parts compute in one dtype.

    Args:
        layer: the outer Keras layer.
        **parts: layers by the names of the arguments that hold them. `None`, and objects without a
            `compute_dtype`, are not checked.
    """
    for name, part in parts.items():
        if isinstance(part, type):
            raise ValueError(
                f"Expected {name} of {type(layer).__name__} to be a layer. Received: {name}=the "
                f"class {part.__name__}. Create the layer first: {name}={part.__name__}(...)."
            )
        dtype = getattr(part, "compute_dtype", layer.compute_dtype)
        if dtype != layer.compute_dtype:
            raise ValueError(
                f"Expected a {type(layer).__name__} and its {name} to compute in one dtype. "
                f"Received: {type(layer).__name__} with compute_dtype={layer.compute_dtype!r}, "
                f"{name}={type(part).__name__} with compute_dtype={dtype!r}. Create both with the "
                "same dtype."
            )


def check_cell(cell: object) -> None:
    """Raises a `ValueError` for what cannot take one step of a sequence, as a layer cannot."""
    if isinstance(cell, (keras.layers.RNN, type)) or not hasattr(cell, "state_size"):
        kind = f"the class {cell.__name__}" if isinstance(cell, type) else type(cell).__name__
        raise ValueError(
            "Expected a cell, which takes one step, such as keras.layers.LSTMCell(256). "
            f"Received: cell={kind}. Create a cell, not a layer that loops over a sequence."
        )


def check_dropout(name: str, rate: object) -> None:
    """Raises a `ValueError` that names the argument unless it is a share that may be dropped."""
    if not is_number(rate) or not 0 <= rate < 1:
        raise ValueError(f"{name} must be in [0, 1). Received: {name}={rate!r}.")
