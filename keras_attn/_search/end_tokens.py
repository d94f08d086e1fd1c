"""The tokens that end a hypothesis: end tokens, and the last tokens in stop sequences."""

import dataclasses
import functools
import operator
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn._backend.gather import gather_rows
from keras_attn._backend.scatter import scatter_add
from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._search.repetition import token_places
from keras_attn._search.stop_sequences import StopMatches
from keras_attn._types import Tensor


def is_any_of(tokens: Tensor, token_ids: Sequence[int]) -> Tensor:
    """Returns whether each token is one of `token_ids`, a boolean tensor."""
    return functools.reduce(operator.or_, [ops.equal(tokens, each) for each in token_ids])


@dataclasses.dataclass(frozen=True)
class Ends:
    """The end tokens and stop sequences at one step.

    Args:
        token_ids: List of ids, the end tokens.
        stops: `StopMatches`. Defaults to `None`: no stop sequences.
    """

    token_ids: Sequence[int]
    stops: StopMatches | None = None

    def find(self, tokens: Tensor, parents: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Finds the hypotheses that end with their new token.

        Args:
            tokens: Int32 tensor of shape `(batch, C)`, the new tokens.
            parents: Int32 tensor of shape `(batch, C)`, which hypotheses they continue.
                Defaults to `None`: one token for each hypothesis.

        Returns:
            Tuple: whether each hypothesis ends, a boolean tensor, and how many tokens its end
            token or stop sequence has, an int32 tensor, or the same boolean tensor if there
            are no stop sequences. Both have the shape `(batch, C)`.
        """
        is_end = is_any_of(tokens, self.token_ids)
        if self.stops is None:
            return is_end, is_end
        number = self.stops.num_end_tokens(tokens, parents)
        return is_end | (number > 0), ops.maximum(ops.cast(is_end, "int32"), number)


def keep_most_probable(
    log_probs: Tensor, token_ids: Sequence[int], stops: StopMatches | None = None
) -> Tensor:
    """Keeps the most probable token in each row that ends it, and makes the others impossible.

    A beam search with K beams selects 2K continuations, so that K remain open if each beam has one
    continuation that ends. With two end tokens per beam, all 2K continuations could end.

    Args:
        log_probs: Float32 tensor of shape `(rows, V)`.
        token_ids: List of ids, the end tokens.
        stops: `StopMatches`. Defaults to `None`: no stop sequences.

    Returns:
        Float32 tensor of shape `(rows, V)`.
    """
    last = [] if stops is None else stops.last_token_ids
    columns = np.array([*token_ids, *last], "int32")
    values = gather_rows(log_probs, columns, axis=1)  # (rows, E + N)
    if stops is None:
        _, best = top_k(values, 1)  # (rows, 1)
        is_kept = ops.arange(len(columns), dtype="int32") == ops.cast(best, "int32")
    else:
        is_end = ops.ones_like(values[:, : len(token_ids)], dtype="bool")
        is_end = ops.concatenate([is_end, stops.is_next], axis=1)
        _, best = top_k(ops.where(is_end, values, 2 * IMPOSSIBLE), 1)
        # Several sequences may have the same last token.
        is_best = ops.equal(gather_rows(columns, ops.cast(best, "int32")), columns)
        is_kept = is_best | ops.logical_not(is_end)
    changes = ops.where(is_kept, 0.0, IMPOSSIBLE)  # (rows, E + N)
    places = token_places(ops.zeros_like(values, dtype="int32") + columns)
    return scatter_add(log_probs, places, ops.reshape(changes, (-1,)))
