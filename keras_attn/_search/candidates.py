"""Candidates: the best continuations of the open beams at a beam search step."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, cast

from keras import ops

from keras_attn._backend import gather
from keras_attn._decoding_state import growing_buffer
from keras_attn._search.beam_groups import candidates_of_groups, group_size
from keras_attn._search.best_continuations import best_continuations
from keras_attn._search.dead_ends import beam_of_candidates, find_dead_ends
from keras_attn._search.end_tokens import is_any_of
from keras_attn._search.logits import IMPOSSIBLE
from keras_attn._types import Tensor, TensorDict


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The 2K best continuations of the K open beams in each batch entry.

    The module `beam_groups` documents their order. A dead end is a beam whose next tokens are all
    impossible.

    Args:
        log_probs: Float32 tensor of shape `(batch, 2 * beams)`, log probabilities of the
            hypotheses, including the new tokens.
        parents: Int32 tensor of shape `(batch, 2 * beams)`, indices of the beams that the
            candidates continue.
        token_ids: Int32 tensor of shape `(batch, 2 * beams)`, the new tokens.
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

    def end_with(self, end_token_ids: Sequence[int]) -> Tensor:
        """Returns a boolean tensor `(batch, 2 * beams)`: whether the new token is an end token."""
        is_end = is_any_of(self.token_ids, end_token_ids)
        if self.is_dead_end is None:
            return is_end
        return is_end & ops.logical_not(self.is_dead_end)  # pad_token_id may equal end_token_id


def find_candidates(
    next_log_probs: Tensor,
    beam_log_probs: Tensor,
    penalties: Tensor,
    penalized_token_ids: Collection[int],
    forced: tuple[Tensor, Tensor, Tensor] | None = None,
    *,
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
        beam_width: Int or scalar int32 tensor, number K of beams. Defaults to `None`: the static
            size of `beam_log_probs`.
        most_beams: Int, the largest value of `beam_width`. Required if `beam_width` is a tensor.
        num_groups: Int, see `BeamDecoder`. It is 1 if `beam_width` is a tensor.
        diversity_strength: Float, see `BeamDecoder`.
        must_end: Boolean tensor of shape `(batch, 1)`. `True` if this step appends the end token to
            all open beams in the batch entry, with the log probability 0. Defaults to `None`: all
            `False`.
        end_token_id: Int, end token id. Defaults to `2`.
        dead_end_token_id: Int, new token of a candidate whose parent is a dead end, usually the
            padding. Defaults to `None`: the function assumes that dead ends cannot occur.
        with_token_log_probs: Bool, whether the result has `token_log_probs`. Defaults to `False`.

    Returns:
        `Candidates`.
    """
    vocabulary_size = next_log_probs.shape[-1]
    num_beams: int | Tensor = beam_log_probs.shape[1] if beam_width is None else beam_width
    most = cast(int, num_beams) if most_beams is None else most_beams
    size = group_size(num_beams, num_groups)

    def own_part(values, first):
        return values if num_groups == 1 else values[:, first : first + size]

    def continue_group(first, token_log_probs, taken):
        log_probs = own_part(beam_log_probs, first)  # (B, M)
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
        if forced is not None:
            forced_tokens, forced_log_probs, is_forced = forced
            # Within the prefix, all beams have the same tokens, so only the first beam may
            # continue.
            only = (log_probs + own_part(forced_log_probs, first))[:, :1]  # (B, 1)
            is_first = ops.arange(2 * size, dtype="int32") == 0
            only = ops.where(is_first, only, 2 * IMPOSSIBLE)  # (B, 2M)
            values = ops.where(is_forced, only, values)
            parents = ops.where(is_forced, 0, parents)
            tokens = ops.where(is_forced, forced_tokens, tokens)
        return values, parents, tokens

    log_probs, parents, tokens = candidates_of_groups(
        continue_group, next_log_probs, beam_log_probs, num_groups, diversity_strength
    )
    if must_end is not None:
        # Only candidates of the first half may end, so the second half is not used.
        unused = ops.zeros_like(beam_log_probs) + 2 * IMPOSSIBLE
        ended = ops.concatenate([beam_log_probs, unused], axis=1)  # (B, 2K)
        log_probs = ops.where(must_end, ended, log_probs)
        parents = ops.where(must_end, beam_of_candidates(num_beams), parents)
        tokens = ops.where(must_end, end_token_id, tokens)
    is_dead_end = None
    if dead_end_token_id is not None:
        is_dead_end, own = find_dead_ends(log_probs, parents, beam_log_probs, num_beams, num_groups)
        own_log_probs = gather.gather_rows(beam_log_probs, own, axis=1)  # (B, 2K)
        tokens = ops.where(is_dead_end, dead_end_token_id, tokens)
        parents = ops.where(is_dead_end, own, parents)
        log_probs = ops.where(is_dead_end, own_log_probs, log_probs)
    token_log_probs = None
    if with_token_log_probs:
        # Use `next_log_probs`: the difference of two log probabilities of hypotheses has a rounding
        # error that grows with the length.
        batch = ops.shape(beam_log_probs)[0]
        flat = ops.reshape(next_log_probs, (batch, num_beams * vocabulary_size))
        token_log_probs = gather.gather_beams(flat, parents * vocabulary_size + tokens)  # (B, 2K)
        token_log_probs = token_log_probs + gather.gather_rows(penalties, tokens)
        if forced is not None:
            _, forced_log_probs, is_forced = forced
            of_parents = gather.gather_beams(forced_log_probs, parents)
            token_log_probs = ops.where(is_forced, of_parents, token_log_probs)
        if must_end is not None:
            token_log_probs = ops.where(must_end, 0.0, token_log_probs)
    return Candidates(log_probs, parents, tokens, is_dead_end, token_log_probs)


def extend_histories(
    beams: TensorDict, candidates: Candidates, weights: Any, step: int | Tensor
) -> TensorDict:
    """Appends the new tokens and their values to their parent beams' histories.

    Args:
        beams: Dict of the open beams, with `token_ids` `(batch, beams, steps)` and optionally
            `token_log_probs` `(batch, beams, steps)`, `alignments` `(batch, beams, steps, source)`
            and `coverage` `(batch, beams, source)`.
        candidates: `Candidates`.
        weights: Float tensor of shape `(batch, beams, source)`, this step's attention weights, or
            `None`.
        step: Int or scalar int32 tensor, number of previous tokens.

    Returns:
        Dict with the same keys. Its tensors have the shape `(batch, 2 * beams, ...)`.
    """
    parents, histories = candidates.parents, {}
    if "coverage" in beams:
        coverage = beams["coverage"] + ops.cast(weights, "float32")  # (B, K, S)
        histories["coverage"] = gather.gather_beams(coverage, parents)
    if "alignments" in beams:
        alignments = growing_buffer.append(beams["alignments"], weights, step)  # (B, K, t+1, S)
        histories["alignments"] = gather.gather_beams(alignments, parents)
    if "token_log_probs" in beams:
        log_probs = gather.gather_beams(beams["token_log_probs"], parents)  # (B, 2K, t)
        histories["token_log_probs"] = growing_buffer.append(
            log_probs, cast(Tensor, candidates.token_log_probs), step
        )
    token_ids = gather.gather_beams(beams["token_ids"], parents)  # (B, 2K, t)
    histories["token_ids"] = growing_buffer.append(token_ids, candidates.token_ids, step)
    return histories
