import math
import numbers

import keras


def check_positive_integer(name, value):
    """Raises a `ValueError` that names the argument unless it is an integer of at least 1."""
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer. Received: {name}={value!r}.")


def is_finite(value):
    """Whether a value is a number, and neither infinite nor NaN."""
    return isinstance(value, numbers.Real) and math.isfinite(value)


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
