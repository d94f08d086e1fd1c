from collections.abc import Iterable

import keras
import numpy as np

from keras_attn.export._export_error import ExportError

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
    messages = []
    for weight in weights:
        if weight.dtype.startswith(("float", "bfloat")):
            array = weight.numpy()
            count = array.size - int(np.isfinite(array).sum())
            if count:
                messages.append(f"{weight.path} ({count} of {array.size} values)")
    if messages:
        more = f" and {len(messages) - SHOWN} others" if len(messages) > SHOWN else ""
        raise ExportError(
            "Expected finite weights. Received: NaN or infinite values in "
            f"{', '.join(messages[:SHOWN])}{more}. Restore an earlier checkpoint with finite "
            "weights, or pass allow_nonfinite=True (--allow-nonfinite)."
        )
