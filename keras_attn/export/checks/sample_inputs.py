"""Sample inputs for the comparison of an export with Keras."""

from typing import Any

import numpy as np


def arrays_in_order(sample: Any, inputs: Any) -> Any:
    """Returns the arrays of a sample in the order of `inputs`, converted to the input dtypes."""
    if isinstance(sample, dict):
        found = {name: _entry(sample, name) for name in inputs}
        missing = [name for name, array in found.items() if array is None]
        if missing:
            raise ValueError(f"Expected an array for each input. Received: none for {missing}.")
        sample = list(found.values())
    is_list = isinstance(sample, (list, tuple))
    arrays = list(sample) if is_list else [sample]
    shapes = [np.shape(array) for array in arrays]
    is_free = [value.shape[0] is None for value in inputs.values()]
    rows = {shape[:1] for shape, free in zip(shapes, is_free, strict=False) if free}
    is_empty = any(shape[:1] in [(), (0,)] for shape in shapes)
    if len(arrays) != len(inputs) or is_empty or len(rows) > 1:
        raise ValueError(
            f"Expected {len(inputs)} arrays with the same number of rows, at least one. "
            f"Received: sample_inputs with shapes {shapes}."
        )
    pairs = list(zip(arrays, inputs.items(), strict=True))
    for array, (name, value) in pairs:
        if np.ndim(array) != len(value.shape) or any(
            expected not in (None, size)
            for expected, size in zip(value.shape[1:], np.shape(array)[1:], strict=True)
        ):
            raise ValueError(
                f"Expected an array of shape {tuple(value.shape)} for the input {name!r}. "
                f"Received: sample_inputs with shape {np.shape(array)}."
                + (" A list has one array for each input; use numpy.array." if is_list else "")
            )
        if value.shape[0] not in (None, len(array)):
            raise ValueError(
                f"Expected {value.shape[0]} rows, the batch size of the input {name!r}. "
                f"Received: sample_inputs with {len(array)} rows."
            )
    return [np.asarray(array, value.dtype) for array, (_, value) in pairs]


def _entry(sample, name):
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
            found = _entry(value, name[len(f"{key}/") :])
            if found is not None:
                return found
    return None
