"""Dead ends in a beam search. A dead end is a beam whose next tokens are all impossible.

A dead end is added to the pool of finished hypotheses with its tokens and its score, and ranks
below all finished hypotheses. For this purpose, the pool sorts hypotheses by rank:

    hypothesis    rank                     range of the rank
    finished      score                    above -5e8
    dead end      (score - 2^-10) 2^40     below -1e9
    missing       NO_RANK                  -1e30

Scaling by a power of two is exact. The term 2^-10 ensures that the rank is below -1e9 even if the
score is 0.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._types import Tensor
from keras_attn_checks.number_types import is_integer

NO_RANK = -1e30
SCALE = 2.0**40
SHIFT = 2.0**-10


def find_dead_ends(
    log_probs: Tensor,
    parents: Tensor,
    beam_log_probs: Tensor,
    beam_width: int | Tensor,
    num_groups: int,
) -> tuple[Tensor, Tensor]:
    """Finds the dead ends, and the candidates that represent them.

    A group of M beams has 2M candidates, sorted by log probability. If at most M of them are
    possible, the group has no other possible continuations. A beam that is not the parent of a
    possible candidate is then a dead end. The last M candidates are impossible in this case, and
    can represent dead ends: if the m-th beam is a dead end, the m-th of these candidates represents
    it. If more than M candidates are possible, M hypotheses continue, and dead ends are dropped
    like beams with low scores.

    Args:
        log_probs: Float32 tensor of shape `(batch, 2 * beams)`, log probabilities of the candidates
            in the order of `candidates_of_groups`.
        parents: Int32 tensor of shape `(batch, 2 * beams)`, indices of the beams that the
            candidates continue.
        beam_log_probs: Float32 tensor of shape `(batch, beams)`, beam log probabilities before this
            step.
        beam_width: Int, number of beams, or a scalar int32 tensor if there is one group.
        num_groups: Int, number of groups.

    Returns:
        Tuple of a boolean tensor of shape `(batch, 2 * beams)`, whether a candidate represents a
        dead end, and an int32 tensor of shape `(2 * beams,)`, the represented beam's index.
    """
    beams = beam_of_candidates(beam_width)
    # Index of each beam in its group. A tensor is not divided if there is one group.
    in_group = beams if num_groups == 1 else beams % (beam_width // num_groups)
    first_free = beam_width + beams - in_group
    is_child = parents[:, None, :] == ops.convert_to_tensor(beams[:, None])  # (B, 2K, 2K)
    best = ops.max(ops.where(is_child, log_probs[:, None, :], 2 * IMPOSSIBLE), axis=-1)  # (B, 2K)
    best = ops.maximum(best, gather.gather_rows(log_probs, first_free, axis=1))
    is_open = gather.gather_rows(beam_log_probs, beams, axis=1) > IMPOSSIBLE / 2  # (B, 2K)
    is_last = ops.convert_to_tensor(_indices(2 * beam_width) >= beam_width)  # (2K,)
    return (best < IMPOSSIBLE / 2) & is_open & is_last, beams


def beam_of_candidates(beam_width: int | Tensor) -> Any:
    """Returns the int32 beam indices `[0, 1, ..., 0, 1, ...]` of the two halves of candidates."""
    return _indices(2 * beam_width) % beam_width


def _indices(count: int | Tensor) -> Any:
    """Returns `[0, 1, ...]`, as a constant if the number is known."""
    if is_integer(count):
        return np.arange(count, dtype="int32")
    return ops.arange(count, dtype="int32")


def ranks_of_dead_ends(scores: Tensor) -> Tensor:
    """Returns the float32 ranks for dead ends with the given scores."""
    return (scores - SHIFT) * SCALE


def ranks_to_scores(ranks: Tensor) -> Tensor:
    """Returns the scores for hypotheses with the given ranks, and `IMPOSSIBLE` for missing ones."""
    scores = ops.where(ranks > IMPOSSIBLE, ranks, ranks / SCALE + SHIFT)
    return ops.where(ranks > NO_RANK / 2, scores, IMPOSSIBLE)
