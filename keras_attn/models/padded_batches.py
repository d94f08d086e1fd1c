from typing import Any

import numpy as np


def padded_array(values: Any, padding: Any) -> Any:
    """A ragged tensor of TensorFlow as an array; anything else is returned as it is."""
    return values.to_tensor(padding).numpy() if hasattr(values, "to_tensor") else values


def concatenate_padded(batches: Any, padding: Any) -> Any:
    """Concatenates arrays of which all axes but the first may have different sizes.

    Args:
        batches: list of arrays of one rank.
        padding: number that fills the smaller ones at the end of each axis.

    Returns:
        Array with the rows of all batches.
    """
    batches = [np.asarray(batch) for batch in batches]
    sizes = np.max([batch.shape for batch in batches], axis=0)
    sizes[0] = sum(map(len, batches))
    padded = np.full(sizes, padding, batches[0].dtype)
    row = 0
    for batch in batches:
        padded[(slice(row, row + len(batch)), *map(slice, batch.shape[1:]))] = batch
        row += len(batch)
    return padded
