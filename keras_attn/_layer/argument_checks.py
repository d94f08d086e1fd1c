import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import keras
import numpy as np

from keras_attn._types import Tensor, TensorLike
from keras_attn_checks.number_types import is_integer, is_number
from keras_attn_checks.options import (
    INTEGER,
    NONNEGATIVE_INTEGER,
    NONNEGATIVE_NUMBER,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    numbers,
    optional,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def accepts_numpy_numbers(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that converts NumPy numbers in the arguments of a function to Python numbers.

    Keras does not accept NumPy integers as sizes, and JSON cannot serialize them in a
    configuration.
    """

    @functools.wraps(function)
    def with_python_numbers(*args: P.args, **kwargs: P.kwargs) -> R:
        untyped = cast(Callable[..., R], function)
        return untyped(*_python_numbers(args), **_python_numbers(kwargs))

    # Keras reads the arguments with `inspect.getfullargspec`, which ignores `__wrapped__`.
    cast(Any, with_python_numbers).__signature__ = inspect.signature(function)
    return with_python_numbers


def _python_numbers(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(_python_numbers(item) for item in value)
    if type(value) is dict:
        return {name: _python_numbers(item) for name, item in value.items()}
    return value


def known_values(tensor: TensorLike) -> np.ndarray | None:
    """Returns the values of a tensor as a NumPy array, or `None` for a symbolic tensor."""
    try:
        return keras.ops.convert_to_numpy(tensor)
    # TensorFlow, JAX, PyTorch and Keras raise these errors for symbolic tensors.
    except (TypeError, ValueError, RuntimeError):
        return None


def check_integers(name: str, values: Tensor | np.ndarray) -> None:
    """Raises a `ValueError` unless a tensor has an integer dtype.

    Empty tensors may have any dtype, because `np.array([[]])` has a float dtype.

    Args:
        name: String, name of the argument.
        values: Tensor, value of the argument.
    """
    dtype = keras.backend.standardize_dtype(values.dtype)
    if "int" not in dtype and 0 not in tuple(values.shape):
        raise ValueError(
            f"Expected {name} of an integer dtype. Received: {name} with dtype={dtype!r}. Pass "
            f'keras.ops.cast({name}, "int32"), or keras.Input(..., dtype="int32") in a model.'
        )


def check_token_ids(**token_ids: int | Sequence[int]) -> None:
    """Raises a `ValueError` unless token ids are non-negative integers.

    Args:
        **token_ids: Ids, or lists of ids, with the names of the arguments.
    """
    for name, value in token_ids.items():
        ids, kind = (value, "integers") if isinstance(value, list) else ([value], "an integer")
        if any(not is_integer(id_) or id_ < 0 for id_ in ids):
            raise ValueError(
                f"Expected {name} to be {kind} of at least 0. Received: {name}={value!r}. Pass "
                "token ids, for instance the ids of the special tokens of a tokenizer."
            )


def check_optional_token_ids(**token_ids: Any) -> None:
    """Checks token ids like `check_token_ids`, but accepts `None`, which means no such token."""
    check_token_ids(**{name: value for name, value in token_ids.items() if value is not None})


def check_number(
    name: str, value: object, condition: Callable[[float], bool], expected: str, advice: str
) -> None:
    """Raises a `ValueError` unless an argument is a number in a range.

    Args:
        name: String, name of the argument.
        value: Value of the argument.
        condition: Function that returns whether a number is in the range.
        expected: String, description of the range.
        advice: String, last sentence of the error message.
    """
    numbers("Float", f"a number {expected}", condition).check(name, value, advice)


def check_positive_number(**numbers: object) -> None:
    """Raises a `ValueError` unless arguments are finite numbers above 0."""
    for name, value in numbers.items():
        POSITIVE_NUMBER.check(name, value)


def check_nonnegative_number(**numbers: object) -> None:
    """Raises a `ValueError` unless arguments are finite numbers of at least 0."""
    for name, value in numbers.items():
        NONNEGATIVE_NUMBER.check(name, value)


def check_nonnegative_integer(**numbers: object) -> None:
    """Raises a `ValueError` unless arguments are integers of at least 0."""
    for name, value in numbers.items():
        NONNEGATIVE_INTEGER.check(name, value)


def check_seed(seed: object) -> None:
    """Raises a `ValueError` unless a seed is an integer or `None`."""
    optional(INTEGER).check("seed", seed, "Pass None for a random seed.")


def check_same_batch(layer: keras.layers.Layer, **inputs: Any) -> None:
    """Raises a `ValueError` if inputs of a layer have different known batch sizes.

    A batch size of 1 is accepted, because most layers broadcast it.

    Args:
        layer: Layer, for the error message.
        **inputs: Tensors, dicts of tensors or `None`, with the names of the arguments.
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
            f"Expected inputs of {type(layer).__name__} with the same batch size. Received: "
            f"{received}. Pass the same number of rows, or one row for the whole batch."
        )


def check_same_time(value: Tensor | None, key: Tensor | None) -> None:
    """Raises a `ValueError` if the lengths of value and key are known and differ."""
    if value is None or key is None or len(value.shape) != 3 or len(key.shape) != 3:
        return
    if None not in (value.shape[1], key.shape[1]) and value.shape[1] != key.shape[1]:
        raise ValueError(
            "Expected value and key of the same length. Received: value with "
            f"shape {tuple(value.shape)}, key with shape {tuple(key.shape)}. Pass keys and values "
            "of the same positions."
        )


def check_sequence_shape(name: str, shape: Any) -> None:
    """Raises a `ValueError` unless a shape is `(batch, time, features)`."""
    if len(shape) != 3:
        raise ValueError(
            f"Expected {name} of shape (batch, time, features). Received: {name} with shape "
            f"{tuple(shape)}. Reshape {name}, or add the missing axis."
        )


def check_positive_integer(name: str, value: object) -> None:
    """Raises a `ValueError` unless an argument is an integer of at least 1."""
    POSITIVE_INTEGER.check(name, value)


def check_second_input(
    layer: keras.layers.Layer, name: str, value: T | None, alternative: str = ""
) -> T:
    """Raises a `ValueError` if a layer with two inputs gets only the first input.

    Args:
        layer: Layer, for the error message.
        name: String, name of the call argument.
        value: Value or shape of the argument.
        alternative: String, further advice for the error message, such as how to create a layer
            without this input. Defaults to `""`.

    Returns:
        `value`.
    """
    if value is None:
        raise ValueError(
            f"Expected {name} as an input of {type(layer).__name__}. Received: {name}=None. Pass "
            f"{name}.{alternative} A wrapper such as TimeDistributed passes only one input and its "
            "mask: call the layer without the wrapper, and first use keras.ops.reshape to merge "
            "the axis that the wrapper iterates over into the batch axis of each input."
        )
    return value


def check_layers(**layers: object) -> None:
    """Raises a `ValueError` unless all arguments are layers or `None`.

    Args:
        **layers: Values, with the names of the arguments.
    """
    for name, value in layers.items():
        if value is not None and not isinstance(value, keras.layers.Layer):
            kind = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
            raise ValueError(
                f"Expected {name} to be a Keras layer or None. Received: {name}={kind}. Create the "
                f"layer first and pass {name}=layer."
            )


def list_of_layers(name: str, layers: Any, kind: type[T]) -> list[T]:
    """Returns layers as a list.

    Args:
        name: String, name of the argument.
        layers: Value of the argument, an iterable of at least one layer.
        kind: Class of the layers.

    Raises:
        ValueError: If `layers` is empty, or not an iterable of layers of the class `kind`.
    """
    received = repr(layers)
    if hasattr(layers, "__iter__") and not isinstance(layers, str):
        layers = list(layers)
        if layers and all(isinstance(layer, kind) for layer in layers):
            return layers
        received = [getattr(layer, "__name__", type(layer).__name__) for layer in layers]
    raise ValueError(
        f"Expected {name} to be a list of at least one {kind.__name__}. Received: "
        f"{name}={received}. Create the layers and pass {name}=[first, second]."
    )


def check_compute_dtype(layer: keras.layers.Layer, **parts: object) -> None:
    """Raises a `ValueError` unless a layer and its parts have the same compute dtype.

    Args:
        layer: Outer Keras layer.
        **parts: Inner layers. The keywords are the names of the arguments of the outer layer, for
            the error message. `None` and objects without a `compute_dtype` are valid.
    """
    for name, part in parts.items():
        if isinstance(part, type):
            raise ValueError(
                f"Expected {name} of {type(layer).__name__} to be a layer. Received: {name}=the "
                f"class {part.__name__}. Create a layer: {name}={part.__name__}(...)."
            )
        dtype = getattr(part, "compute_dtype", layer.compute_dtype)
        if dtype != layer.compute_dtype:
            raise ValueError(
                f"Expected a {type(layer).__name__} and its {name} with the same compute dtype. "
                f"Received: {type(layer).__name__} with compute_dtype={layer.compute_dtype!r}, "
                f"{name}={type(part).__name__} with compute_dtype={dtype!r}. Create both with the "
                "same dtype."
            )


def check_cell(cell: object) -> None:
    """Raises a `ValueError` unless an object is a recurrent cell."""
    if isinstance(cell, (keras.layers.RNN, type)) or not hasattr(cell, "state_size"):
        kind = f"the class {cell.__name__}" if isinstance(cell, type) else type(cell).__name__
        raise ValueError(
            "Expected a cell, such as keras.layers.LSTMCell(256). "
            f"Received: cell={kind}. Pass a cell, not a layer that loops over a sequence."
        )


def check_label_smoothing(label_smoothing: object) -> None:
    """Raises a `ValueError` unless an argument is a probability in [0, 1)."""
    if not is_number(label_smoothing) or not 0 <= label_smoothing < 1:
        raise ValueError(
            "Expected label_smoothing to be in [0, 1). Received: "
            f"label_smoothing={label_smoothing!r}. Use 0.0 for no smoothing."
        )


def check_mean_loss(reduction: object, dtype: Any) -> None:
    """Raises a `ValueError` for a reduction or dtype of a loss that computes a mean in float32."""
    if reduction != "sum_over_batch_size":
        raise ValueError(
            "Expected reduction='sum_over_batch_size', because the loss averages by itself. "
            f"Received: reduction={reduction!r}. Omit it, or use a loss of Keras."
        )
    if dtype is not None and keras.DTypePolicy(getattr(dtype, "name", dtype)).name != "float32":
        raise ValueError(
            "Expected dtype='float32', because the loss is computed in float32. Received: "
            f"dtype={dtype!r}. Omit it."
        )


def check_label(name: str, label: object) -> None:
    """Raises a `ValueError` unless an argument is an integer. Labels may be negative."""
    if not is_integer(label):
        raise ValueError(
            f"Expected {name} to be an integer. Received: {name}={label!r}. Pass a label, such as "
            "0 or -100."
        )


def check_dropout(name: str, rate: object) -> None:
    """Raises a `ValueError` unless an argument is a dropout rate in [0, 1)."""
    check_share(name, rate)


def check_share(name: str, rate: object) -> None:
    """Raises a `ValueError` unless an argument is a number in [0, 1)."""
    if not is_number(rate) or not 0 <= rate < 1:
        raise ValueError(f"Expected {name} to be in [0, 1). Received: {name}={rate!r}.")
