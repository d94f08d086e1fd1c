"""Simple reference searches with phrases that a hypothesis must contain, for one sentence.

A phrase is a list of alternatives, an alternative a tuple of tokens without the end token. The
state of each hypothesis is computed anew from all of its tokens. `log_probs_after` is the function
described in `keras_attn.testing._search_oracles`. It gives impossible tokens a log probability of
minus infinity.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_attn.testing._search_oracles import LogProbsAfter, Tokens, hypothesis

Phrases: TypeAlias = Sequence[Sequence[Tokens]]
WordStarts: TypeAlias = npt.ArrayLike | None

ConstrainedHypothesis: TypeAlias = tuple[Tokens, int, float, float, tuple[bool, ...]]
"""Tokens, length, score, log probability and, for each phrase, whether it is done."""


class PhraseState(NamedTuple):
    """The state of a phrase. The progress is 0 for a phrase that is not tracked or was met."""

    met: bool
    awaiting: bool
    progress: list[int]
    tracked: bool

    @property
    def done(self) -> bool:
        return self.met or self.awaiting


def ends_with(tokens: Sequence[int], part: Sequence[int]) -> bool:
    start = len(tokens) - len(part)
    return start >= 0 and tuple(tokens[start:]) == tuple(part)


def starts_word(word_starts: WordStarts, token: int) -> bool:
    return word_starts is None or bool(np.asarray(word_starts)[token])


def without_end(tokens: Tokens, end: int) -> Tokens:
    return tokens[:-1] if tokens[-1:] == (end,) else tokens


def best_first(candidates: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    """Sorts by log probability, then beam, then token. Leaves out impossible candidates."""
    ranked = sorted(candidates.items(), key=lambda item: (-item[1], item[0]))
    return {key: log_prob for key, log_prob in ranked if log_prob > -np.inf}


def phrase_states(
    tokens: Tokens, phrases: Phrases, in_order: bool = False, word_starts: WordStarts = None
) -> list[PhraseState]:
    """Returns the state of each phrase after `tokens`, which do not contain the end token.

    A token that starts a word after an occurrence of a phrase makes this phrase met. In order, the
    same token is the first one that is read for the next phrase.
    """
    met = [False] * len(phrases)
    read: list[list[int]] = [[] for _ in phrases]  # The tokens read while the phrase was tracked.

    def is_tracked(index: int) -> bool:
        return not in_order or all(met[:index])

    def has_ended(index: int) -> bool:
        return any(ends_with(read[index], alternative) for alternative in phrases[index])

    for token in tokens:
        for index in range(len(phrases)):
            if is_tracked(index) and not met[index]:
                met[index] = has_ended(index) and starts_word(word_starts, token)
                read[index].append(token)

    states = []
    for index, phrase in enumerate(phrases):
        progress = [0] * len(phrase)
        if not met[index]:
            progress = [
                max(n for n in range(len(each) + 1) if ends_with(read[index], each[:n]))
                for each in phrase
            ]
        awaiting = not met[index] and has_ended(index)
        states.append(PhraseState(met[index], awaiting, progress, is_tracked(index)))
    return states


def num_missing_tokens(states: Sequence[PhraseState], phrases: Phrases) -> int:
    """Returns the number of tokens that the phrases which are not done still need.

    Only the phrase with the largest progress counts as begun, because a hypothesis can continue
    only one of several phrases with the same first tokens.
    """
    needed, gains = 0, [0]
    for phrase, state in zip(phrases, states, strict=True):
        if not state.done:
            shortest = min(map(len, phrase))
            left = [len(each) - n for each, n in zip(phrase, state.progress, strict=True)]
            needed += shortest
            gains.append(shortest - min(left))
    return needed - max(gains)


def constrained_beam_search(
    log_probs_after: LogProbsAfter,
    max_length: int,
    phrases: Phrases,
    *,
    in_order: bool = False,
    word_starts: WordStarts = None,
    beam_width: int,
    num_hypotheses: int = 1,
    end: int = 2,
    patience: float = 1.0,
    length_penalty: float = 1.0,
    force: Tokens = (),
    required_log_probs_after: LogProbsAfter | None = None,
) -> list[ConstrainedHypothesis]:
    """Runs a beam search with `stop="collected"`. Returns the best hypotheses, best first.

    Candidates are put into banks by the number of tokens that their phrases still need, and the
    banks take turns (Post & Vilar, 2018). The hypotheses begin with the tokens in `force`.
    `required_log_probs_after` is used for the next tokens of the phrases.
    """
    required_log_probs_after = required_log_probs_after or log_probs_after

    def states_of(tokens: Tokens) -> list[PhraseState]:
        return phrase_states(without_end(tokens, end), phrases, in_order, word_starts)

    def candidates_of(beams: list[tuple[Tokens, float]]) -> dict[tuple[int, int], float]:
        """Returns the log probability of each candidate, which is a beam and a token."""
        continuations, best_of_beams, required = {}, [], {}
        for beam, (prefix, log_prob) in enumerate(beams):
            states = states_of(prefix)
            done = [state.done for state in states]
            following = log_prob + np.array(log_probs_after(prefix), "float64")
            if not all(done):
                following[end] = -np.inf
            tokens = best_first({(beam, token): x for token, x in enumerate(following)})
            continuations |= tokens
            best_of_beams += list(tokens.items())[:1]
            if any(state.awaiting for state in states):
                starts = [key for key in tokens if starts_word(word_starts, key[1])]
                best_of_beams += [(key, tokens[key]) for key in starts[:1]]
            for index, (phrase, state) in enumerate(zip(phrases, states, strict=True)):
                if state.done or (in_order and not all(done[:index])):
                    continue
                for alternative, progress in zip(phrase, state.progress, strict=True):
                    token = alternative[progress]  # Not done, so progress < len(alternative).
                    required[beam, token] = log_prob + required_log_probs_after(prefix)[token]
        best = list(best_first(continuations).items())[: 2 * beam_width]
        return best_first({**dict(best), **dict(best_of_beams), **required})

    beams, pool = [((), 0.0)], []
    num_ended, most_ended = 0, max(1, math.floor(beam_width * patience + 0.5))
    if max_length <= 0:
        pool.append((False, (), 0.0))
    for length in range(1, max_length + 1):
        if length <= len(force):
            prefix, log_prob = beams[0]
            token = force[length - 1]
            candidates = best_first({(0, token): log_prob + log_probs_after(prefix)[token]})
        else:
            candidates = candidates_of(beams)
        with_candidate = {beam for beam, _ in candidates}
        if len(candidates) <= beam_width:
            pool += [(True, *beams[i]) for i in range(len(beams)) if i not in with_candidate]

        banks: dict[int, list[tuple[Tokens, float]]] = {}
        for (beam, token), log_prob in candidates.items():
            tokens = (*beams[beam][0], token)
            bank = banks.setdefault(num_missing_tokens(states_of(tokens), phrases), [])
            bank.append((tokens, log_prob))
        turns = itertools.zip_longest(*(banks[missing] for missing in sorted(banks)))
        ordered = [item for turn in turns for item in turn if item is not None]
        ordered = ordered[: 2 * beam_width]

        for tokens, log_prob in ordered[:beam_width]:
            num_ended += tokens[-1] == end
            if tokens[-1] == end or length == max_length:
                pool.append((False, tokens, log_prob))
        beams = [(tokens, value) for tokens, value in ordered if tokens[-1] != end][:beam_width]
        if not beams or num_ended >= most_ended:
            break

    found = []
    for is_dead_end, tokens, log_prob in pool:
        result = hypothesis(tokens, log_prob, length_penalty, end=end)
        done = tuple(state.done for state in states_of(tokens))
        found.append((is_dead_end, (*result, done)))
    found.sort(key=lambda item: (item[0], item[1][4].count(False), -item[1][2]))
    return [result for _, result in found[:num_hypotheses]]


def contained_phrases(
    tokens: Tokens, phrases: Phrases, in_order: bool = False, word_starts: WordStarts = None
) -> tuple[bool, ...]:
    """Returns for each phrase whether `tokens`, which are without end token, contain it.

    In order, these are the first phrases, as many as occur one after the other without overlap.
    """
    occurrences = [
        [
            (start, start + len(each))
            for each in phrase
            for start in range(len(tokens) - len(each) + 1)
            if tokens[start : start + len(each)] == each
            and all(starts_word(word_starts, w) for w in tokens[start + len(each) :][:1])
        ]
        for phrase in phrases
    ]
    if not in_order:
        return tuple(bool(each) for each in occurrences)
    for count in range(len(phrases), 0, -1):
        for chain in itertools.product(*occurrences[:count]):
            if all(stop <= start for (_, stop), (start, _) in itertools.pairwise(chain)):
                return (True,) * count + (False,) * (len(phrases) - count)
    return (False,) * len(phrases)


def constrained_enumeration(
    log_probs_after: LogProbsAfter,
    max_length: int,
    phrases: Phrases,
    *,
    in_order: bool = False,
    word_starts: WordStarts = None,
    end: int = 2,
    length_penalty: float = 1.0,
    num_hypotheses: int = 1,
) -> list[ConstrainedHypothesis]:
    """Returns the best hypotheses among all sequences of at most `max_length` tokens.

    These are the sequences that contain the phrases and end with the end token, and those of
    `max_length` tokens without end token. They are ranked by fewer missing phrases, then by score.
    """
    results, open_ones = [], [((), 0.0)]
    while open_ones:
        tokens, log_prob = open_ones.pop()
        has_end = tokens[-1:] == (end,)
        if has_end or len(tokens) == max_length:
            words = without_end(tokens, end)
            contained = contained_phrases(words, phrases, in_order, word_starts)
            if all(contained) or not has_end:
                result = hypothesis(tokens, log_prob, length_penalty, end=end)
                results.append((*result, contained))
            continue
        for token, following in enumerate(log_probs_after(tokens)):
            if following > -np.inf:
                open_ones.append(((*tokens, token), log_prob + following))
    return sorted(results, key=lambda result: (result[4].count(False), -result[2]))[:num_hypotheses]
