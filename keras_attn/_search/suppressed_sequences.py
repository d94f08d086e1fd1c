"""Token sequences that a hypothesis must not contain."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn._backend.scatter import scatter_add
from keras_attn._search.logits import IMPOSSIBLE
from keras_attn._search.repetition import token_places
from keras_attn._types import Tensor

_NO_TOKEN = -1
_ANY_TOKEN = -2


def suppress_sequences(
    log_probs: Tensor, token_ids: Tensor, step: int | Tensor, sequences: Sequence[Sequence[int]]
) -> Tensor:
    """Makes the last token of a sequence impossible after the tokens before it.

    As in CTranslate2 (`suppress_sequences`) and Hugging Face Transformers (`bad_words_ids`), the
    log probabilities of all other tokens do not change.

    Args:
        log_probs: Float32 tensor of shape `(batch * hypotheses, V)`.
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`, the previous tokens.
        step: Scalar int32 tensor, number of previous tokens. Later columns are ignored.
        sequences: List of lists with at least two ids.

    Returns:
        Float32 tensor of shape `(batch * hypotheses, V)`.

    Raises:
        ValueError: If an id is not below V.
    """
    vocabulary_size = log_probs.shape[-1]
    if max(map(max, sequences)) >= vocabulary_size:
        raise ValueError(
            f"Expected token ids below the size of the vocabulary, {vocabulary_size}. Received: "
            f"suppressed_sequences={[*map(list, sequences)]}. Pass ids of the target vocabulary."
        )
    length = max(map(len, sequences)) - 1  # L
    starts = np.full((len(sequences), length), _ANY_TOKEN, "int32")
    for row, sequence in zip(starts, sequences, strict=True):
        row[length - len(sequence) + 1 :] = sequence[:-1]
    last = np.array([sequence[-1] for sequence in sequences], "int32")  # (N,)

    rows, columns = ops.shape(log_probs)[0], ops.shape(token_ids)[2]
    before = ops.zeros((rows, length), dtype="int32") + _NO_TOKEN
    history = ops.concatenate([before, ops.reshape(token_ids, (rows, columns))], axis=1)
    is_match = ops.ones((rows, 1), dtype="bool")
    for index in range(length):
        newest = ops.take(history, step + index, axis=1)[:, None]  # (rows, 1)
        start = starts[:, index]
        is_match = is_match & (ops.equal(newest, start) | (start == _ANY_TOKEN))  # (rows, N)
    penalties = ops.cast(ops.where(is_match, IMPOSSIBLE, 0.0), log_probs.dtype)
    places = token_places(ops.zeros_like(penalties, dtype="int32") + last)
    return scatter_add(log_probs, places, ops.reshape(penalties, (-1,)))
