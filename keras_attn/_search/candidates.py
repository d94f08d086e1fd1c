"""Candidates: the best continuations of the open beams at a beam search step."""

import dataclasses
from collections.abc import Callable, Collection
from typing import cast

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._search.beam_groups import candidates_of_groups, group_size
from keras_attn._search.best_continuations import best_continuations
from keras_attn._search.dead_ends import beam_of_candidates, find_dead_ends
from keras_attn._search.end_tokens import Ends
from keras_attn._types import Tensor


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The 2K best continuations of the K open beams in each batch entry.

    The module `beam_groups` documents their order, unless phrases are required. A dead end is a
    beam whose next tokens are all impossible.

    Args:
        log_probs: Float32 tensor of shape `(batch, 2 * beams)`, log probabilities of the
            hypotheses, including the new tokens.
        parents: Int32 tensor of shape `(batch, 2 * beams)`, indices of the beams that the
            candidates continue.
        token_ids: Int32 tensor of shape `(batch, 2 * beams)`, the new tokens; usually padding
            for a dead end.
        is_dead_end: Boolean tensor of shape `(batch, 2 * beams)`. `True` if the parent is a dead
            end; the candidate is then the parent without a new token. `None` if dead ends cannot
            occur.
        token_log_probs: Float32 tensor of shape `(batch, 2 * beams)`, log probabilities of the new
            tokens, or `None` if they are not requested.
    """

    log_probs: Tensor
    parents: Tensor
    token_ids: Tensor
    is_dead_end: Tensor | None = None
    token_log_probs: Tensor | None = None

    def find_ends(self, ends: Ends) -> tuple[Tensor, Tensor]:
        """Returns which candidates their new token ends, and its end tokens, see `Ends.find`."""
        is_end, number = ends.find(self.token_ids, self.parents)
        if self.is_dead_end is None:
            return is_end, number
        is_end = is_end & ops.logical_not(self.is_dead_end)  # pad_token_id may equal end_token_id
        return is_end, is_end if ends.stops is None else ops.where(is_end, number, 0)


def find_candidates(
    next_log_probs: Tensor,
    beam_log_probs: Tensor,
    penalties: Tensor,
    penalized_token_ids: Collection[int],
    forced: tuple[Tensor, Tensor, Tensor] | None = None,
    *,
    require: Callable[[Candidates], Candidates] | None = None,
    scored_log_probs: Tensor | None = None,
    beam_width: int | Tensor | None = None,
    most_beams: int | None = None,
    num_groups: int = 1,
    diversity_strength: float | Tensor = 0.5,
    must_end: Tensor | None = None,
    end_token_id: int = 2,
    dead_end_token_id: int | None = None,
    with_token_log_probs: bool = False,
) -> Candidates:
    """Finds the 2K best continuations of the K beams in each batch entry.

    Args:
        next_log_probs: Float32 tensor of shape `(batch * beams, V)`, log probabilities of the next
            tokens.
        beam_log_probs: Float32 tensor of shape `(batch, beams)`, beam log probabilities.
        penalties: Float32 tensor of shape `(V,)`, added to the tokens' log probabilities.
        penalized_token_ids: Set of ints, all tokens with a negative penalty.
        forced: Result of `prefix.forced_tokens`, the next tokens of the prefixes, or `None`.
        require: Function that replaces the best continuations by others, see
            `constraints.require_phrases`. Defaults to `None`.
        scored_log_probs: Float32 tensor with the shape of `next_log_probs`, from which the
            `token_log_probs` of the result are taken. Defaults to `None`: `next_log_probs`.
        beam_width: Int or scalar int32 tensor, number K of beams. Defaults to `None`:
            `beam_log_probs.shape[1]`.
        most_beams: Int, the largest value of `beam_width`. Required if `beam_width` is a tensor.
        num_groups: Int, see `BeamDecoder`. It must be 1 if `beam_width` is a tensor.
        diversity_strength: Float or scalar float32 tensor, see `BeamDecoder`.
        must_end: Boolean tensor of shape `(batch, 1)`. `True` if this step appends the end token to
            all open beams in the batch entry, with the log probability 0. Defaults to `None`: all
            `False`.
        end_token_id: Int, end token id. Defaults to `2`.
        dead_end_token_id: Int, `token_ids` of candidates whose parent is a dead end, usually the
            padding id. Defaults to `None`: the function assumes that dead ends cannot occur.
        with_token_log_probs: Bool, whether the result has `token_log_probs`. Defaults to `False`.

    Returns:
        `Candidates`.
    """
    num_beams: int | Tensor = beam_log_probs.shape[1] if beam_width is None else beam_width
    most = cast(int, num_beams) if most_beams is None else most_beams
    size = group_size(num_beams, num_groups)

    def continue_group(first, token_log_probs, taken):
        is_all = num_groups == 1
        log_probs = beam_log_probs if is_all else beam_log_probs[:, first : first + size]  # (B, M)
        values, parents, tokens = best_continuations(
            token_log_probs,
            log_probs,
            penalties,
            penalized_token_ids,
            beams=size,
            most_beams=most // num_groups,
        )  # (B, 2M)
        if taken is not None:
            values = values + gather.gather_beams(taken, tokens)
        return values, parents, tokens

    candidates = Candidates(
        *candidates_of_groups(
            continue_group, next_log_probs, beam_log_probs, num_groups, diversity_strength
        )
    )
    if require is not None:
        candidates = require(candidates)
    if forced is not None:
        candidates = _follow_prefix(candidates, beam_log_probs, forced, num_beams, num_groups)
    if must_end is not None:
        candidates = _end_all(candidates, beam_log_probs, must_end, num_beams, end_token_id)
    if dead_end_token_id is not None:
        candidates = _mark_dead_ends(
            candidates, beam_log_probs, num_beams, num_groups, dead_end_token_id
        )
    if with_token_log_probs:
        token_log_probs = next_log_probs if scored_log_probs is None else scored_log_probs
        candidates = _add_token_log_probs(
            candidates, token_log_probs, num_beams, penalties, forced, must_end
        )
    return candidates


def _follow_prefix(candidates, beam_log_probs, forced, num_beams, num_groups):
    """Continues only the first beam of each group, where this step is within the prefix."""
    forced_tokens, forced_log_probs, is_forced = forced
    totals = beam_log_probs + forced_log_probs  # (B, K)
    if num_groups == 1:
        first, only = 0, totals[:, :1]  # (B, 1)
        is_first = ops.arange(2 * num_beams, dtype="int32") == 0
    else:
        beams = beam_of_candidates(num_beams)
        first = beams - beams % (num_beams // num_groups)  # (2K,)
        only = gather.gather_rows(totals, first, axis=1)  # (B, 2K)
        is_first = (beams == first) & (np.arange(2 * num_beams) < num_beams)
    only = ops.where(is_first, only, 2 * IMPOSSIBLE)  # (B, 2K)
    return dataclasses.replace(
        candidates,
        log_probs=ops.where(is_forced, only, candidates.log_probs),
        parents=ops.where(is_forced, first, candidates.parents),
        token_ids=ops.where(is_forced, forced_tokens, candidates.token_ids),
    )


def _end_all(candidates, beam_log_probs, must_end, num_beams, end_token_id):
    """Replaces the candidates by all beams, each with an end token, where `must_end` is `True`."""
    # Only candidates of the first half may end, so the second half is not used.
    unused = ops.zeros_like(beam_log_probs) + 2 * IMPOSSIBLE
    ended = ops.concatenate([beam_log_probs, unused], axis=1)  # (B, 2K)
    return dataclasses.replace(
        candidates,
        log_probs=ops.where(must_end, ended, candidates.log_probs),
        parents=ops.where(must_end, beam_of_candidates(num_beams), candidates.parents),
        token_ids=ops.where(must_end, end_token_id, candidates.token_ids),
    )


def _mark_dead_ends(candidates, beam_log_probs, num_beams, num_groups, dead_end_token_id):
    """Replaces the impossible candidates of beams that are dead ends by these beams."""
    is_dead_end, own = find_dead_ends(
        candidates.log_probs, candidates.parents, beam_log_probs, num_beams, num_groups
    )
    own_log_probs = gather.gather_rows(beam_log_probs, own, axis=1)  # (B, 2K)
    return dataclasses.replace(
        candidates,
        log_probs=ops.where(is_dead_end, own_log_probs, candidates.log_probs),
        parents=ops.where(is_dead_end, own, candidates.parents),
        token_ids=ops.where(is_dead_end, dead_end_token_id, candidates.token_ids),
        is_dead_end=is_dead_end,
    )


def _add_token_log_probs(candidates, token_log_probs, num_beams, penalties, forced, must_end):
    """Sets `token_log_probs`, the log probabilities of the new tokens.

    They are not computed as differences of the log probabilities of hypotheses, whose rounding
    error grows with the length.
    """
    parents, tokens = candidates.parents, candidates.token_ids
    vocabulary_size = token_log_probs.shape[-1]
    batch = ops.shape(parents)[0]
    flat = ops.reshape(token_log_probs, (batch, num_beams * vocabulary_size))
    values = gather.gather_beams(flat, parents * vocabulary_size + tokens)  # (B, 2K)
    values = values + gather.gather_rows(penalties, tokens)
    if forced is not None:
        _, forced_log_probs, is_forced = forced
        of_parents = gather.gather_beams(forced_log_probs, parents)
        values = ops.where(is_forced, of_parents, values)
    if must_end is not None:
        values = ops.where(must_end, 0.0, values)
    return dataclasses.replace(candidates, token_log_probs=values)
