"""Dead ends of a beam search: hypotheses after which every token is impossible.

A beam without continuations ends where it is, as if the maximum length had cut it there, and ranks
below all hypotheses that have ended. So the pool sorts hypotheses by ranks:

    score                        of a hypothesis that has ended, above -5e8
    (score - 2^-10) 2^40         of a dead end, below -1e9
    NO_RANK                      of a hypothesis that does not exist

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
    """Finds the beams that have no continuation, and the candidates that can take them.

    A group of M beams has 2M candidates, best first. If at most M are possible, all continuations
    of the group are among them, so a beam is a dead end if it is the parent of none of them. The
    second half is then free: its m-th candidate stands for the m-th beam. If more are possible,
    M other beams go on, and dead ends are dropped like other beams that are worse.

    Args:
        log_probs: float32 `(batch, 2 * beams)`, of the candidates, in the order of
            `candidates_of_groups`.
        parents: int32 `(batch, 2 * beams)`.
        beam_log_probs: float32 `(batch, beams)`, of the beams before this step.
        num_groups: int.

    Returns:
        Tuple of whether a candidate stands for a dead end, boolean `(batch, 2 * beams)`, and the
        beam that each candidate would stand for, an int32 array `(2 * beams,)`.
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
    """Ranks float32 of dead ends with these scores."""
    return (scores - SHIFT) * SCALE


def ranks_to_scores(ranks: Tensor) -> Tensor:
    """The scores float32 of hypotheses with these ranks, `IMPOSSIBLE` where there is none."""
    scores = ops.where(ranks > IMPOSSIBLE, ranks, ranks / SCALE + SHIFT)
    return ops.where(ranks > NO_RANK / 2, scores, IMPOSSIBLE)
