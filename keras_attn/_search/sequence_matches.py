"""Which token sequences a hypothesis's next token can complete."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn._backend.scatter import scatter_add
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._search.repetition import token_places
from keras_attn._types import Tensor

_NO_TOKEN = -1
_ANY_TOKEN = -2


def match_beginnings(
    token_ids: Tensor,
    step: int | Tensor,
    sequences: Sequence[Sequence[int]],
    rows: int | Tensor,
) -> Tensor:
    """Returns whether each hypothesis ends with each sequence without its last token.

    Args:
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        step: Scalar int32 tensor, how many previous tokens there are. Later columns are ignored.
        sequences: List of N id sequences that are not empty.
        rows: Int or scalar int32 tensor, `batch * hypotheses`.

    Returns:
        Boolean tensor of shape `(rows, N)`.
    """
    length = max(map(len, sequences)) - 1  # L
    starts = np.full((len(sequences), length), _ANY_TOKEN, "int32")
    for row, sequence in zip(starts, sequences, strict=True):
        row[length - len(sequence) + 1 :] = sequence[:-1]
    columns = ops.shape(token_ids)[2]
    before = ops.zeros((rows, length), dtype="int32") + _NO_TOKEN
    history = ops.concatenate([before, ops.reshape(token_ids, (rows, columns))], axis=1)
    is_match = ops.ones((rows, 1 if length else len(sequences)), dtype="bool")
    for index in range(length):
        newest = ops.take(history, step + index, axis=1)[:, None]  # (rows, 1)
        start = starts[:, index]
        is_match = is_match & (ops.equal(newest, start) | (start == _ANY_TOKEN))  # (rows, N)
    return is_match


def forbid_last_tokens(
    log_probs: Tensor, is_match: Tensor, sequences: Sequence[Sequence[int]]
) -> Tensor:
    """Makes the last tokens in sequences impossible.

    Args:
        log_probs: Float32 tensor of shape `(rows, V)`.
        is_match: Boolean tensor of shape `(rows, N)`, for which sequences.
        sequences: List of N id sequences that are not empty.

    Returns:
        Float32 tensor of shape `(rows, V)`.
    """
    last = np.array([sequence[-1] for sequence in sequences], "int32")  # (N,)
    penalties = ops.cast(ops.where(is_match, IMPOSSIBLE, 0.0), log_probs.dtype)
    places = token_places(ops.zeros_like(penalties, dtype="int32") + last)
    return scatter_add(log_probs, places, ops.reshape(penalties, (-1,)))
