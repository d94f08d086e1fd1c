from collections.abc import Iterable

import keras
import numpy as np

from keras_attn.export.export_error import ExportError

SHOWN = 8
"""Maximum number of weights that the message names."""


def check_finite(weights: Iterable[keras.Variable], allow_nonfinite: bool = False) -> None:
    """Raises an error if weights are NaN or infinite, as after a training that diverged.

    Args:
        weights: List of `keras.Variable`.
        allow_nonfinite: Bool, whether to accept NaN and infinite weights.

    Raises:
        ExportError: If weights are NaN or infinite. The message names these weights and the number
            of NaN and infinite values in each.
    """
    if allow_nonfinite:
        return
    found = []
    for weight in weights:
        if weight.dtype.startswith(("float", "bfloat")):
            array = weight.numpy()
            count = array.size - int(np.isfinite(array).sum())
            if count:
                found.append(f"{weight.path} ({count} of {array.size} values)")
    if found:
        others = f" and {len(found) - SHOWN} others" if len(found) > SHOWN else ""
        raise ExportError(
            "Expected finite weights. Received: NaN or infinite values in "
            f"{', '.join(found[:SHOWN])}{others}. Restore an earlier checkpoint with finite "
            "weights, or pass allow_nonfinite=True (--allow-nonfinite)."
        )
