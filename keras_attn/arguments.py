import functools
import inspect
import math
import numbers

import keras
import numpy as np


def accepts_numpy_numbers(function):
    """Decorates a function so that numbers of NumPy among its arguments become those of Python.

    Keras refuses NumPy integers as sizes, and JSON refuses them in a configuration.
    """

    @functools.wraps(function)
    def with_python_numbers(*args, **kwargs):
        args = [_python_numbers(each) for each in args]
        return function(*args, **{name: _python_numbers(each) for name, each in kwargs.items()})

    # Keras reads the arguments of a layer by `inspect.getfullargspec`, which sees no `__wrapped__`.
    with_python_numbers.__signature__ = inspect.signature(function)
    return with_python_numbers


def _python_numbers(value):
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(_python_numbers(each) for each in value)
    if type(value) is dict:
        return {name: _python_numbers(each) for name, each in value.items()}
    return value


def check_positive_integer(name, value):
    """Raises a `ValueError` that names the argument unless it is an integer of at least 1."""
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer. Received: {name}={value!r}.")


def is_finite(value):
    """Whether a value is a number, and neither infinite nor NaN."""
    return isinstance(value, numbers.Real) and math.isfinite(value)


def check_second_input(layer, name, value, alternative=""):
    """Raises `ValueError` if a layer with two sequences as inputs is given the first one alone.

    Args:
        layer: the layer, for the error.
        name: str, the call argument.
        value: its value, or its shape.
        alternative: str, a sentence on how to do without it.
    """
    if value is None:
        raise ValueError(
            f"{type(layer).__name__} needs {name} besides its first input. Received: {name}=None. "
            f"Pass {name}.{alternative} A wrapper such as TimeDistributed passes one input and its "
            "mask: call the layer without it, with the axis of the wrapper merged into the batch "
            "axis of all inputs by keras.ops.reshape."
        )


def check_compute_dtype(layer, **parts):
    """Raises a `ValueError` unless a layer and its parts compute in one dtype.

    Args:
        layer: the outer Keras layer.
        **parts: layers by the names of the arguments that hold them. `None`, and objects without a
            `compute_dtype`, are not checked.
    """
    for name, part in parts.items():
        dtype = getattr(part, "compute_dtype", layer.compute_dtype)
        if dtype != layer.compute_dtype:
            raise ValueError(
                f"Expected a {type(layer).__name__} and its {name} to compute in one dtype. "
                f"Received: {type(layer).__name__} with compute_dtype={layer.compute_dtype!r}, "
                f"{name}={type(part).__name__} with compute_dtype={dtype!r}. Create both with the "
                "same dtype."
            )


def check_cell(cell):
    """Raises a `ValueError` for what cannot take one step of a sequence, as a layer cannot."""
    if isinstance(cell, keras.layers.RNN) or not hasattr(cell, "state_size"):
        raise ValueError(
            "Expected a cell, which takes one step, such as keras.layers.LSTMCell(256). "
            f"Received: cell={type(cell).__name__}."
        )


def check_dropout(name, rate):
    """Raises a `ValueError` that names the argument unless it is a share that may be dropped."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name} must be in [0, 1). Received: {name}={rate}.")
