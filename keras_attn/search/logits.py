"""What a search does to logits before it compares them."""

import numpy as np
from keras import ops

from keras_attn.gather import gather_rows

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
    return logits + _penalty(logits.shape[-1], token_ids)


def suppress_candidates(logits, tokens, token_ids, vocabulary_size):
    """Makes some tokens impossible where only some are left to choose from.

    Args:
        logits: float32 `(rows, candidates)`, also as log probabilities.
        tokens: int32 `(rows, candidates)`, what they belong to.
        token_ids: list of int, fixed when tracing.
        vocabulary_size: int.

    Returns:
        float32 `(rows, candidates)`.
    """
    if not token_ids:
        return logits
    return logits + gather_rows(_penalty(vocabulary_size, token_ids), tokens)


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
    return logits + early * _penalty(logits.shape[-1], [token_id])


def _penalty(vocabulary_size, token_ids):
    penalty = np.zeros(vocabulary_size, "float32")
    penalty[list(token_ids)] = IMPOSSIBLE
    return ops.convert_to_tensor(penalty)
