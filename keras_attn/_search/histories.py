"""Histories: the values of hypotheses that have one entry for each step."""

import functools
from typing import TYPE_CHECKING, Any, cast

from keras import ops

from keras_attn._backend import gather
from keras_attn._decoding_state import growing_buffer
from keras_attn._search.candidates import Candidates
from keras_attn._search.top_tokens import TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS
from keras_attn._types import Tensor, TensorDict

if TYPE_CHECKING:
    from keras_attn._search.search import Search

OF_PARENTS = ("alignments", TOP_TOKEN_IDS, TOP_TOKEN_LOG_PROBS)
"""Names of the histories whose entry at a step does not depend on the token chosen there."""

HISTORIES = ("token_ids", "token_log_probs", *OF_PARENTS)
"""Names of all histories. Their tensors have the shape `(batch, hypotheses, steps, ...)`."""


def requested_histories(
    search: "Search", state: TensorDict, rows: tuple[Any, Any], source: int | Tensor
) -> TensorDict:
    """Creates the empty histories of the results that a search returns on request.

    Args:
        search: `Search`.
        state: State of the decoder, which determines the dtype of the attention weights.
        rows: Tuple `(batch, hypotheses)`.
        source: Int or scalar int32 tensor, number of source positions.
    """
    new = functools.partial(growing_buffer.new_buffer, rows, capacity=search.max_length)
    histories = {}
    if search.return_alignments:
        histories["alignments"] = new((source,), search.alignments_dtype(state))
    if search.return_token_log_probs:
        histories["token_log_probs"] = new((), "float32")
    if search.return_top_tokens:
        histories[TOP_TOKEN_IDS] = new((search.return_top_tokens,), "int32")
        histories[TOP_TOKEN_LOG_PROBS] = new((search.return_top_tokens,), "float32")
    return histories


def extend_histories(
    beams: TensorDict, candidates: Candidates, of_parents: TensorDict, step: int | Tensor
) -> TensorDict:
    """Appends the new tokens and their values to their parent beams' histories.

    Args:
        beams: Dict of the open beams, with `token_ids` `(batch, beams, steps)` and optionally
            other `HISTORIES` and `coverage` `(batch, beams, source)`.
        candidates: `Candidates`.
        of_parents: Dict of this step's entries of `OF_PARENTS`, tensors of shape `(batch, beams,
            ...)`. With `coverage`, it contains `alignments`.
        step: Int or scalar int32 tensor, number of previous tokens.

    Returns:
        Dict with the same keys as `beams`. Its tensors have the shape `(batch, 2 * beams, ...)`.
    """
    parents, histories = candidates.parents, {}
    if "coverage" in beams:
        coverage = beams["coverage"] + ops.cast(of_parents["alignments"], "float32")  # (B, K, S)
        histories["coverage"] = gather.gather_beams(coverage, parents)
    for name in OF_PARENTS:
        if name in beams:
            longer = growing_buffer.append(beams[name], of_parents[name], step)  # (B, K, t+1, ...)
            histories[name] = gather.gather_beams(longer, parents)
    if "token_log_probs" in beams:
        log_probs = gather.gather_beams(beams["token_log_probs"], parents)  # (B, 2K, t)
        histories["token_log_probs"] = growing_buffer.append(
            log_probs, cast(Tensor, candidates.token_log_probs), step
        )
    token_ids = gather.gather_beams(beams["token_ids"], parents)  # (B, 2K, t)
    histories["token_ids"] = growing_buffer.append(token_ids, candidates.token_ids, step)
    return histories
