"""Searches with several end tokens."""

import functools
import operator
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn._backend.gather import gather_rows
from keras_attn._backend.scatter import scatter_add
from keras_attn._backend.top_k import top_k
from keras_attn._search.logits import IMPOSSIBLE
from keras_attn._search.repetition import token_places
from keras_attn._types import Tensor


def is_any_of(tokens: Tensor, token_ids: Sequence[int]) -> Tensor:
    """Returns whether each token is one of `token_ids`, a boolean tensor."""
    return functools.reduce(operator.or_, [ops.equal(tokens, each) for each in token_ids])


def keep_most_probable(log_probs: Tensor, token_ids: Sequence[int]) -> Tensor:
    """Keeps the most probable of several tokens in each row, and makes the others impossible.

    A beam search with K beams selects 2K continuations, so that K remain open if each beam has one
    continuation that ends. With two end tokens per beam, all 2K continuations could end.

    Args:
        log_probs: Float32 tensor of shape `(rows, V)`.
        token_ids: List of ints, ids of these tokens.

    Returns:
        Float32 tensor of shape `(rows, V)`.
    """
    columns = np.array(token_ids, "int32")
    values = gather_rows(log_probs, columns, axis=1)  # (rows, E)
    _, best = top_k(values, 1)  # (rows, 1)
    is_best = ops.arange(len(columns), dtype="int32") == ops.cast(best, "int32")
    changes = ops.where(is_best, 0.0, IMPOSSIBLE)  # (rows, E)
    places = token_places(ops.zeros_like(values, dtype="int32") + columns)
    return scatter_add(log_probs, places, ops.reshape(changes, (-1,)))
