"""Sample inputs for the comparison of an export with Keras."""

from collections.abc import Mapping

import keras
import numpy as np

from keras_attn.export._types import ParityInputs
from keras_attn_checks.message import Argument, Message

PARITY_INPUTS = Argument("parity_inputs")
"""The argument in errors."""


def arrays_in_order(
    sample: ParityInputs, inputs: Mapping[str, keras.KerasTensor]
) -> list[np.ndarray]:
    """Returns the arrays of a sample in the order of `inputs`, converted to the input dtypes."""
    if isinstance(sample, dict):
        values = {name: _entry(sample, name) for name in inputs}
        missing = [name for name, array in values.items() if array is None]
        if missing:
            raise ValueError(f"Expected an array for each input. Received: none for {missing}.")
        given = list(values.values())
    else:
        given = list(sample) if isinstance(sample, (list, tuple)) else [sample]
    is_list = isinstance(sample, (dict, list, tuple))
    shapes = [np.asarray(value).shape for value in given]
    is_free = [value.shape[0] is None for value in inputs.values()]
    rows = {shape[:1] for shape, free in zip(shapes, is_free, strict=False) if free}
    is_empty = any(shape[:1] in [(), (0,)] for shape in shapes)
    if len(given) != len(inputs) or is_empty or len(rows) > 1:
        raise ValueError(
            Message(
                f"Expected {len(inputs)} arrays with the same number of rows, at least one. "
                "Received: ",
                PARITY_INPUTS,
                f" with shapes {shapes}.",
            )
        )
    for shape, (name, value) in zip(shapes, inputs.items(), strict=True):
        if len(shape) != len(value.shape) or any(
            expected not in (None, size)
            for expected, size in zip(value.shape[1:], shape[1:], strict=True)
        ):
            raise ValueError(
                Message(
                    f"Expected an array of shape {tuple(value.shape)} for the input {name!r}. "
                    "Received: ",
                    PARITY_INPUTS,
                    f" with shape {shape}."
                    + (" A list has one array for each input; use numpy.array." if is_list else ""),
                )
            )
        if value.shape[0] not in (None, shape[0]):
            raise ValueError(
                Message(
                    f"Expected {value.shape[0]} rows, the batch size of the input {name!r}. "
                    "Received: ",
                    PARITY_INPUTS,
                    f" with {shape[0]} rows.",
                )
            )
    return [
        np.asarray(array, value.dtype) for array, value in zip(given, inputs.values(), strict=True)
    ]


def _entry(sample: object, name: str) -> object:
    """Returns the array of an input in a sample that may be nested; `None` if it is missing."""
    if isinstance(sample, dict) and name in sample:
        return sample[name]
    if not isinstance(sample, (dict, list, tuple)):
        return None
    items = sample.items() if isinstance(sample, dict) else enumerate(sample)
    for key, value in items:
        if name == str(key):
            return value
        if name.startswith(f"{key}/"):
            entry = _entry(value, name[len(f"{key}/") :])
            if entry is not None:
                return entry
    return None
