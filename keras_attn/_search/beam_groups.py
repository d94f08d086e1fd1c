"""Diverse beam search: a beam group is penalized for tokens that previous groups select.

A candidate is a beam with one additional token. A group of M beams finds its 2M best candidates.
The 2K candidates of all K beams form one row per batch entry. Each group's M best candidates are in
the first half of the row, ordered by group. Its other M candidates are in the second half, in the
same order. Only candidates in the first half may end a hypothesis.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from keras import ops

from keras_attn._backend.top_k import top_k
from keras_attn._decoders.log_probs import IMPOSSIBLE
from keras_attn._types import Tensor


def candidates_of_groups(
    continue_group: Callable[..., Any],
    token_log_probs: Tensor,
    log_probs: Tensor,
    num_groups: int,
    strength: float | Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the best continuations of the beams in each group.

    Args:
        continue_group: Function of three arguments: the index of the first beam in a group, the
            group's `token_log_probs` minus the diversity penalty `(batch * group_size, V)`, and the
            diversity penalty, float32 `(batch, V)` or `None`. It returns log probabilities
            (float32), parents (int32 beam indices in the group) and tokens (int32), each of shape
            `(batch, 2 * group_size)`, best first.
        token_log_probs: Float32 tensor of shape `(batch * beams, V)`, log probabilities of the next
            tokens.
        log_probs: Float32 tensor of shape `(batch, beams)`, beam log probabilities.
        num_groups: Int, number of groups. It must divide the number of beams.
        strength: Float or scalar tensor, token penalty for each selection by a previous group.

    Returns:
        Tuple of log probabilities, parents and tokens, each of shape `(batch, 2 * beams)`, in the
        order that the module describes.
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


def group_size(beam_width: int | Tensor, num_groups: int) -> int | Tensor:
    """Returns the number of beams in a group. A tensor is not divided if there is one group."""
    return beam_width if num_groups == 1 else beam_width // num_groups


def first_open(
    log_probs: Tensor, is_end: Tensor, beam_width: int | Tensor, num_groups: int
) -> Tensor:
    """Selects the best open candidates in each group, as many as it has beams.

    Args:
        log_probs: Float32 tensor of shape `(batch, 2 * beams)`, in the order of
            `candidates_of_groups`. Candidates that have ended must have a very low value.
        is_end: Boolean tensor of shape `(batch, 2 * beams)`, whether a candidate has ended.
        beam_width: Int, number of beams, or a scalar int32 tensor if there is one group.
        num_groups: Int, number of groups.

    Returns:
        Int32 tensor of shape `(batch, beams)`, candidate indices.
    """
    if num_groups == 1:
        _, chosen = top_k(log_probs, beam_width)
        return ops.cast(chosen, "int32")
    beams = cast(int, beam_width)
    candidates = 2 * beams
    order = ops.convert_to_tensor(-np.arange(candidates, dtype="float32"))
    order = ops.where(is_end, order - candidates, order)  # (B, 2K), ended candidates come last
    size = beams // num_groups
    order = ops.reshape(order, (-1, 2, num_groups, size))
    order = ops.reshape(ops.transpose(order, (0, 2, 1, 3)), (-1, num_groups, 2 * size))
    _, chosen = top_k(order, size)  # (B, G, M), in [0, 2M)
    chosen = ops.cast(chosen, "int32")
    starts = ops.arange(num_groups, dtype="int32")[:, None] * size
    chosen = chosen + starts + (chosen // size) * (beams - size)  # (B, G, M), in [0, 2K)
    return ops.reshape(chosen, (-1, beams))


def first_open_in_order(is_end: Tensor, beam_width: int | Tensor) -> Tensor:
    """Selects the first candidates that are open.

    Args:
        is_end: Boolean tensor of shape `(batch, 2 * beams)`, whether a candidate has ended.
        beam_width: Int or scalar int32 tensor, number of beams.

    Returns:
        Int32 tensor of shape `(batch, beams)`, candidate indices.
    """
    count = ops.shape(is_end)[1]
    order = -ops.cast(ops.arange(count, dtype="int32"), "float32")
    ended = order - ops.cast(count, "float32")
    _, chosen = top_k(ops.where(is_end, ended, order), beam_width)
    return ops.cast(chosen, "int32")


def is_repeated(token_ids: Tensor, counts: Tensor) -> Tensor:
    """Returns whether a hypothesis equals a previous hypothesis in the same batch entry.

    Args:
        token_ids: Int32 tensor of shape `(batch, hypotheses, steps)`.
        counts: Boolean tensor of shape `(batch, hypotheses)`. A hypothesis with the value `False`
            is ignored when later hypotheses are compared.

    Returns:
        Boolean tensor of shape `(batch, hypotheses)`.
    """
    same = ops.all(token_ids[:, :, None] == token_ids[:, None], axis=-1)  # (B, K, K)
    before = ops.convert_to_tensor(np.tri(token_ids.shape[1], k=-1, dtype="bool"))  # (K, K)
    return ops.any(same & before & counts[:, None], axis=-1)
