"""Simple reference searches for one sentence in NumPy, without batches, buffers and masks.

The argument `log_probs_after` is a function: `log_probs_after(prefix)` returns the log
probabilities `(V,)` of the next token after a tuple of tokens. A hypothesis is a tuple of tokens,
length, score and log probability.
"""

import collections
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_attn_checks.search_options import LengthPenaltyForm, Stop

Tokens: TypeAlias = tuple[int, ...]

LogProbsAfter: TypeAlias = Callable[[Tokens], np.ndarray]

Hypothesis: TypeAlias = tuple[Tokens, int, float, float]
"""Tokens, length, score and log probability."""


def log_softmax(logits: npt.ArrayLike) -> np.ndarray:
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def length_divisor(
    length: int, length_penalty: float, form: LengthPenaltyForm, has_end: bool = False
) -> float:
    return {
        "average": max(length, 1) ** length_penalty,
        "average_with_end": max(length + has_end, 1) ** length_penalty,
        "gnmt": ((5 + length) / 6) ** length_penalty,
        "none": 1.0,
    }[form]


def hypothesis(
    tokens: Tokens,
    log_prob: float,
    length_penalty: float = 1.0,
    form: LengthPenaltyForm = "average",
    end: int = 2,
) -> Hypothesis:
    has_end = tokens[-1:] == (end,)
    length = len(tokens) - has_end
    divisor = length_divisor(length, length_penalty, form, has_end)
    return tokens, length, log_prob / divisor, log_prob


def allowed_tokens(
    log_probs: np.ndarray,
    prefix: Tokens,
    min_length: int = 0,
    end: int = 2,
    suppressed: Collection[int] = (0, 1),
) -> Iterator[int]:
    for token in range(len(log_probs)):
        is_early = token == end and len(prefix) < min_length
        if token not in suppressed and not is_early and log_probs[token] > -np.inf:
            yield token


def greedy_search(
    log_probs_after: LogProbsAfter,
    limit: int,
    min_length: int = 0,
    end: int = 2,
    suppressed: Collection[int] = (0, 1),
) -> tuple[Tokens, float]:
    """Returns the tokens and their log probability. Stops if all next tokens are impossible."""
    prefix, total = (), 0.0
    while len(prefix) < limit and prefix[-1:] != (end,):
        log_probs = log_probs_after(prefix)
        allowed = list(allowed_tokens(log_probs, prefix, min_length, end, suppressed))
        if not allowed:
            break
        best = max(allowed, key=lambda token: log_probs[token])
        prefix, total = prefix + (best,), total + log_probs[best]
    return prefix, total


def beam_search(
    log_probs_after: LogProbsAfter,
    limit: int,
    beam_width: int,
    num_hypotheses: int = 1,
    min_length: int = 0,
    stop: Stop = "collected",
    patience: float = 1.0,
    length_penalty: float = 1.0,
    form: LengthPenaltyForm = "average",
    end: int = 2,
    suppressed: Collection[int] = (0, 1),
    more: Callable[[Tokens], float] = lambda tokens: 0.0,
    num_groups: int = 1,
    diversity_strength: float = 0.5,
) -> list[Hypothesis]:
    """Runs a beam search. Returns the best `num_hypotheses` finished hypotheses, best first.

    A dead end is a beam whose next tokens are all impossible. Dead ends are returned after all
    finished hypotheses. If the group of a dead end has more possible continuations than beams, the
    dead end is dropped instead.

    `more(tokens)` is added to the score of a hypothesis. Groups of beams implement diverse beam
    search with Hamming diversity (Vijayakumar et al., 2018).

    Sorting is stable, so ties are ordered by beam, then by token.
    """
    if limit <= 0:
        return [((), 0, 0.0, 0.0)]
    group_size = beam_width // num_groups
    groups, pool, all_dead_ends = [[((), 0.0)] for _ in range(num_groups)], [], []

    def sorted_hypotheses(candidates: Iterable[tuple[Tokens, float]]) -> list[Hypothesis]:
        hypotheses = []
        for tokens, log_prob in candidates:
            *named, score, log_prob = hypothesis(tokens, log_prob, length_penalty, form, end)
            hypotheses.append((*named, score + more(tokens), log_prob))
        return sorted(hypotheses, key=lambda candidate: -candidate[2])

    for length in range(1, limit + 1):
        times_chosen, ended, dead_ends = collections.Counter(), [], []
        for group, beams in enumerate(groups):
            candidates, without_continuation = [], []
            for prefix, log_prob in beams:
                following = log_probs_after(prefix)
                allowed = list(allowed_tokens(following, prefix, min_length, end, suppressed))
                if not allowed:
                    without_continuation.append((prefix, log_prob))
                for token in allowed:
                    total = log_prob + following[token]
                    value = total - diversity_strength * times_chosen[token]
                    candidates.append((value, prefix + (token,), total))
            if len(candidates) <= group_size:
                dead_ends += [item for item in without_continuation if item not in dead_ends]
            candidates.sort(key=lambda candidate: -candidate[0])
            candidates = [candidate[1:] for candidate in candidates[: 2 * group_size]]
            for tokens, log_prob in candidates[:group_size]:
                times_chosen[tokens[-1]] += 1
                is_new = tokens not in [ended_tokens for ended_tokens, _ in ended]
                if is_new and (tokens[-1] == end or length == limit):
                    ended.append((tokens, log_prob))
            open_ones = [candidate for candidate in candidates if candidate[0][-1] != end]
            groups[group] = open_ones[:group_size]
        pool += ended
        all_dead_ends += dead_ends
        best_open = max((log_prob for beams in groups for _, log_prob in beams), default=None)
        if best_open is None:
            break
        if stop == "collected" and len(pool) >= max(1, math.floor(beam_width * patience + 0.5)):
            break
        if stop == "heuristic" and len(pool) >= beam_width:
            attainable = best_open / length_divisor(length, length_penalty, form)
            if sorted_hypotheses(pool)[beam_width - 1][2] >= attainable:
                break
        if stop == "exact" and len(pool) >= num_hypotheses:
            attainable = max(
                best_open / length_divisor(final, length_penalty, form, final < limit)
                for final in range(length, limit + 1)
            )
            if sorted_hypotheses(pool)[num_hypotheses - 1][2] >= attainable:
                break
    return [*sorted_hypotheses(pool), *sorted_hypotheses(all_dead_ends)][:num_hypotheses]


def every_hypothesis(
    log_probs_after: LogProbsAfter,
    limit: int,
    length_penalty: float = 1.0,
    form: LengthPenaltyForm = "average",
    min_length: int = 0,
    end: int = 2,
    suppressed: Collection[int] = (0, 1),
) -> list[Hypothesis]:
    """Returns all hypotheses that end with the end token or reach the limit, best first.

    The dead ends follow, best first. A dead end is a sequence without possible next tokens.
    """
    finished, dead_ends, open_ones = [], [], [((), 0.0)]
    while open_ones:
        prefix, log_prob = open_ones.pop()
        if len(prefix) == limit or prefix[-1:] == (end,):
            finished.append(hypothesis(prefix, log_prob, length_penalty, form, end))
            continue
        log_probs = log_probs_after(prefix)
        allowed = list(allowed_tokens(log_probs, prefix, min_length, end, suppressed))
        open_ones += [(prefix + (token,), log_prob + log_probs[token]) for token in allowed]
        if not allowed:
            dead_ends.append(hypothesis(prefix, log_prob, length_penalty, form, end))
    best_first = lambda hypotheses: sorted(hypotheses, key=lambda candidate: -candidate[2])  # noqa: E731
    return [*best_first(finished), *best_first(dead_ends)]
