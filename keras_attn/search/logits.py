"""What a search does to logits before it compares them."""

import numpy as np
from keras import ops

# Log probability of what must not happen. Finite: infinities do not survive the conversion to ONNX.
IMPOSSIBLE = -1e9


def suppress(logits, token_ids):
    """Makes some tokens impossible.

    Args:
        logits: float32 `(rows, V)`, also as log probabilities.
        token_ids: list of int, fixed when tracing.

    Returns:
        float32 `(rows, V)`.
    """
    if not token_ids:
        return logits
    return logits + _penalty(logits, token_ids)


def suppress_before(logits, token_id, step, min_length):
    """Makes a token impossible until `min_length` tokens are there.

    Args:
        logits: float32 `(rows, V)`.
        token_id: int.
        step: int32 scalar, tokens so far.
        min_length: int.

    Returns:
        float32 `(rows, V)`.
    """
    if not min_length:
        return logits
    early = ops.cast(step < min_length, "float32")
    return logits + early * _penalty(logits, [token_id])


def _penalty(logits, token_ids):
    penalty = np.zeros(logits.shape[-1], "float32")
    penalty[list(token_ids)] = IMPOSSIBLE
    return ops.convert_to_tensor(penalty)
