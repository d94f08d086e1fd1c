"""Groups of beams that search side by side: each is held off what those before it choose.

The candidates of all groups are in one row: first as many of each group as it has beams, which may
end, then as many more of each, and the better first in either half.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_attn._types import Tensor
from keras_attn.search.logits import IMPOSSIBLE


def candidates_of_groups(
    continue_group: Callable[..., Any],
    token_log_probs: Tensor,
    log_probs: Tensor,
    num_groups: int,
    strength: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each group's beams.

    Args:
        continue_group: function of the first beam of a group, its part of `token_log_probs`
            `(batch * beams of the group, V)` and what was taken from that, float32 `(batch, V)` or
            `None`. It returns log probabilities, float32, parents, int32 beams of the group, and
            tokens, int32, each `(batch, 2 * beams of the group)`, best first.
        token_log_probs: float32 `(batch * beams, V)`.
        log_probs: float32 `(batch, beams)`, of the beams so far.
        num_groups: int, divides the beams.
        strength: float, what a token loses each time that a group before has chosen it.

    Returns:
        Tuple of log probabilities, parents and tokens, each `(batch, 2 * beams)`.
    """
    if num_groups == 1:
        return continue_group(0, token_log_probs, None)
    beams, vocabulary_size = log_probs.shape[1], token_log_probs.shape[-1]
    size = beams // num_groups
    of_beams = ops.reshape(token_log_probs, (-1, beams, vocabulary_size))  # (B, K, V)
    token_ids = ops.arange(vocabulary_size, dtype="int32")
    taken, may_end, others = None, [], []
    for first in range(0, beams, size):
        own = of_beams[:, first : first + size]  # (B, M, V)
        own = own if taken is None else own - taken[:, None]
        own = ops.reshape(own, (-1, vocabulary_size))  # (B*M, V)
        values, parents, tokens = continue_group(first, own, taken)  # (B, 2M)
        found = (values, parents + first, tokens)
        may_end.append([each[:, :size] for each in found])
        others.append([each[:, size:] for each in found])
        if first + size < beams:
            chosen = ops.where(values > IMPOSSIBLE / 2, tokens, -1)[:, :size, None]  # (B, M, 1)
            times = ops.sum(ops.cast(chosen == token_ids, "float32"), axis=1)  # (B, V)
            taken = strength * times if taken is None else taken + strength * times
    values, parents, tokens = (
        ops.concatenate(each, axis=1) for each in zip(*may_end, *others, strict=True)
    )
    return values, parents, tokens


def first_open(log_probs: Tensor, is_end: Tensor, num_groups: int) -> Tensor:
    """The candidates that go on: of each group the best that have not ended, as many as its beams.

    Args:
        log_probs: float32 `(batch, 2 * beams)`, in the order of `candidates_of_groups`; far below
            all others where a candidate has ended.
        is_end: boolean `(batch, 2 * beams)`, which have.
        num_groups: int.

    Returns:
        int32 `(batch, beams)`.
    """
    candidates = is_end.shape[1]
    beams = candidates // 2
    if num_groups == 1:
        _, chosen = ops.top_k(log_probs, beams)
        return ops.cast(chosen, "int32")
    order = -np.arange(candidates, dtype="float32")
    order = ops.where(is_end, order - candidates, order)  # (B, 2K), those that have ended last
    size = beams // num_groups
    order = ops.reshape(order, (-1, 2, num_groups, size))
    order = ops.reshape(ops.transpose(order, (0, 2, 1, 3)), (-1, num_groups, 2 * size))
    _, chosen = ops.top_k(order, size)  # (B, G, M) of 2M
    chosen = ops.cast(chosen, "int32")
    starts = ops.arange(num_groups, dtype="int32")[:, None] * size
    chosen = chosen + starts + (chosen // size) * (beams - size)  # (B, G, M) of 2K
    return ops.reshape(chosen, (-1, beams))


def is_repeated(token_ids: Tensor, counts: Tensor) -> Tensor:
    """Whether a hypothesis is the same as one before it that counts, which another group has found.

    Args:
        token_ids: int32 `(batch, hypotheses, steps)`.
        counts: boolean `(batch, hypotheses)`.

    Returns:
        boolean `(batch, hypotheses)`.
    """
    same = ops.all(token_ids[:, :, None] == token_ids[:, None], axis=-1)  # (B, K, K)
    before = np.tri(token_ids.shape[1], k=-1, dtype="bool")  # (K, K)
    return ops.any(same & before & counts[:, None], axis=-1)
