"""Dead ends of a beam search: hypotheses for which every next token is impossible.

A beam without continuations is returned as if the maximum length had ended it, and ranks below all
hypotheses that have ended. For this purpose, the pool sorts hypotheses by ranks:

    score                        of a hypothesis that has ended, above -5e8
    (score - 2^-10) 2^40         of a dead end, below -1e9
    NO_RANK                      of a missing hypothesis

Scaling by a power of two is exact, and 2^-10 is more than the rounding error of a score of 0.
"""

import numpy as np
from keras import ops

from keras_attn._backend import gather
from keras_attn._types import Tensor
from keras_attn.search.logits import IMPOSSIBLE

NO_RANK = -1e30
SCALE = 2.0**40
SHIFT = 2.0**-10


def find_dead_ends(
    log_probs: Tensor, parents: Tensor, beam_log_probs: Tensor, num_groups: int
) -> tuple[Tensor, Tensor]:
    """Finds the beams without continuations, and the candidates that can represent them.

    A group of M beams has 2M candidates, sorted by log probability. If at most M are possible, they
    include all continuations of the group, so a beam that is the parent of none of them is a dead
    end. The second half of the candidates is then free, and its m-th candidate represents the m-th
    beam. If more than M are possible, M other beams continue, and dead ends are dropped like other
    beams with lower scores.

    Args:
        log_probs: Float32 tensor of shape `(batch, 2 * beams)`, the candidates in the order of
            `candidates_of_groups`.
        parents: Int32 tensor of shape `(batch, 2 * beams)`, their beams.
        beam_log_probs: Float32 tensor of shape `(batch, beams)`, the beams before this step.
        num_groups: Int, number of groups.

    Returns:
        Tuple of a boolean tensor of shape `(batch, 2 * beams)`, whether a candidate represents a
        dead end, and an int32 array of shape `(2 * beams,)`, the beam that each candidate
        represents.
    """
    num_beams = beam_log_probs.shape[1]
    candidates = np.arange(2 * num_beams)
    beams = (candidates % num_beams).astype("int32")
    size = num_beams // num_groups
    first_free = (num_beams + beams // size * size).astype("int32")
    is_child = parents[:, None, :] == beams[:, None]  # (B, 2K, 2K)
    best = ops.max(ops.where(is_child, log_probs[:, None, :], 2 * IMPOSSIBLE), axis=-1)  # (B, 2K)
    best = ops.maximum(best, gather.gather_rows(log_probs, first_free, axis=1))
    is_open = gather.gather_rows(beam_log_probs, beams, axis=1) > IMPOSSIBLE / 2  # (B, 2K)
    return (best < IMPOSSIBLE / 2) & is_open & (candidates >= num_beams), beams


def ranks_of_dead_ends(scores: Tensor) -> Tensor:
    """Returns the float32 ranks of dead ends with the given scores."""
    return (scores - SHIFT) * SCALE


def ranks_to_scores(ranks: Tensor) -> Tensor:
    """Returns the scores of hypotheses with the given ranks, `IMPOSSIBLE` if missing."""
    scores = ops.where(ranks > IMPOSSIBLE, ranks, ranks / SCALE + SHIFT)
    return ops.where(ranks > NO_RANK / 2, scores, IMPOSSIBLE)
