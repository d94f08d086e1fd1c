from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def padded_array(values: Any, padding: float) -> np.ndarray:
    """Converts a TensorFlow ragged tensor to a padded array. Returns arrays unchanged."""
    return values.to_tensor(padding).numpy() if hasattr(values, "to_tensor") else values


def concatenate_padded(batches: Sequence[npt.ArrayLike], padding: float) -> np.ndarray:
    """Concatenates arrays along the first axis and pads the other axes to the same sizes.

    Args:
        batches: List of arrays with the same rank.
        padding: Number that fills the padding.

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
