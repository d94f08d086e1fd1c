"""Checks the reference searches of `phrase_oracles` themselves."""

import itertools
import math

import numpy as np
import pytest

from keras_attn.testing import _search_oracles as search_oracles
from tests.search import phrase_oracles as oracles

pytestmark = pytest.mark.slow

A, B, END, C, D = 0, 1, 2, 3, 4

PHRASES = {
    "none": [],
    "one_token": [[(A,)]],
    "repeated_token": [[(A, A, B)]],
    "twice": [[(A, B)], [(A, B)]],
    "overlapping": [[(A, B)], [(B, C)]],
    "alternatives": [[(A, B, A), (C,)], [(B, B), (C, A)]],
    "alternative_is_prefix": [[(A,), (A, B)]],
    "alternative_is_inside": [[(A, B, C), (B,)], [(A, A)]],
    "three": [[(A,)], [(B,), (C, C)], [(A,)]],
    "too_long": [[(A, B, C)], [(C, B)], [(A, A)]],
    "impossible": [[(A, B, C, A, B, C)], [(C,)]],
}
WORD_STARTS = {
    "all": None,
    "all_but_b": [True, False, True, True, True],
    "only_c": [False, False, False, True, False],
    "end_is_none": [True, True, False, True, False],
    "no_token": [False] * 5,
}


def random_log_probs_after(seed, size=4, impossible=0.0):
    def log_probs_after(prefix):
        rng = np.random.default_rng([seed, len(prefix), *prefix])
        log_probs = search_oracles.log_softmax(2 * rng.normal(size=size))
        log_probs[rng.random(size) < impossible] = -np.inf
        return log_probs

    return log_probs_after


def constant(*probs):
    with np.errstate(divide="ignore"):
        log_probs = np.log(probs)
    return lambda prefix: log_probs


def done(tokens, phrases, in_order=False, word_starts=None):
    return [each.done for each in oracles.phrase_states(tokens, phrases, in_order, word_starts)]


def tokens_of(hypotheses):
    return [each[0] for each in hypotheses]


parametrize_phrases = pytest.mark.parametrize("phrases", PHRASES.values(), ids=PHRASES)
parametrize_starts = pytest.mark.parametrize("word_starts", WORD_STARTS.values(), ids=WORD_STARTS)
parametrize_order = pytest.mark.parametrize("in_order", [False, True])


@parametrize_phrases
@parametrize_starts
@parametrize_order
def test_done_phrases_are_contained(phrases, word_starts, in_order):
    for length in range(7):
        for tokens in itertools.product([A, B, C], repeat=length):
            contained = oracles.contained_phrases(tokens, phrases, in_order, word_starts)
            assert done(tokens, phrases, in_order, word_starts) == list(contained), tokens


@parametrize_phrases
@parametrize_starts
@parametrize_order
def test_remaining_tokens_complete_a_phrase(phrases, word_starts, in_order):
    for tokens in itertools.product([A, B, C], repeat=4):
        states = oracles.phrase_states(tokens, phrases, in_order, word_starts)
        for i, state in enumerate(states):
            if state.tracked and not state.done:
                for alternative, progress in zip(phrases[i], state.progress, strict=True):
                    assert progress < len(alternative)
                    rest = alternative[progress:]
                    prefixes = [(*tokens, *rest[:n]) for n in range(len(rest) + 1)]
                    assert any(done(each, phrases, in_order, word_starts)[i] for each in prefixes)
            if not state.tracked:
                assert set(state.progress) == {0} and not state.done


@parametrize_phrases
@parametrize_starts
@parametrize_order
@pytest.mark.parametrize("size, max_length, length_penalty", [(4, 5, 1.0), (5, 4, 0.6)])
@pytest.mark.parametrize("impossible", [0.0, 0.3])
def test_wide_beam_finds_best_of_all(
    phrases, word_starts, in_order, size, max_length, length_penalty, impossible
):
    for seed in range(2):
        log_probs_after = random_log_probs_after(seed, size, impossible)
        arguments = {
            "in_order": in_order,
            "word_starts": word_starts and word_starts[:size],
            "length_penalty": length_penalty,
            "num_hypotheses": 10_000,
        }
        expected = oracles.constrained_enumeration(
            log_probs_after, max_length, phrases, **arguments
        )
        result = oracles.constrained_beam_search(
            log_probs_after, max_length, phrases, beam_width=size**max_length, **arguments
        )
        finished = [h for h in result if h[0][-1:] == (END,) or len(h[0]) == max_length]
        assert finished == expected
        assert result[: len(finished)] == finished  # Dead ends are last.
        assert impossible or result == finished or not all(log_probs_after(()) > -np.inf)


@parametrize_phrases
@parametrize_order
@pytest.mark.parametrize("beam_width", [1, 2, 3, 5])
def test_narrow_beam(phrases, in_order, beam_width):
    num_ended = 0
    for seed, word_starts in itertools.product(range(10), WORD_STARTS.values()):
        log_probs_after = random_log_probs_after(seed, 5)
        results = oracles.constrained_beam_search(
            log_probs_after,
            12,
            phrases,
            in_order=in_order,
            word_starts=word_starts,
            beam_width=beam_width,
            num_hypotheses=100,
        )
        keys = [(each[4].count(False), -each[2]) for each in results]
        assert results and keys == sorted(keys)
        assert len(set(tokens_of(results))) == len(results)
        for tokens, length, score, log_prob, flags in results:
            words = oracles.without_end(tokens, END)
            assert flags == oracles.contained_phrases(words, phrases, in_order, word_starts)
            assert END not in words and length == len(words)
            assert score == log_prob / max(1, length)
            total = 0.0
            for i, token in enumerate(tokens):
                total += log_probs_after(tokens[:i])[token]
            assert log_prob == total
            assert all(flags) or tokens[-1] != END
            num_ended += tokens[-1] == END
    assert num_ended or phrases == PHRASES["impossible"] or beam_width < 5


@pytest.mark.parametrize("beam_width", [1, 2, 3, 5])
@pytest.mark.parametrize("patience", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("impossible", [0.0, 0.5, 0.8])
def test_without_phrases_equals_beam_search(beam_width, patience, impossible):
    for seed in range(20):
        log_probs_after = random_log_probs_after(seed, 5, impossible)
        expected = search_oracles.beam_search(
            log_probs_after, 6, beam_width, 100, patience=patience, suppressed=()
        )
        result = oracles.constrained_beam_search(
            log_probs_after, 6, [], beam_width=beam_width, num_hypotheses=100, patience=patience
        )
        assert [each[:4] for each in result] == expected


def test_first_tokens_repeat():
    progress = [
        oracles.phrase_states((A, A, A, B)[:n], [[(A, A, B)]])[0].progress for n in range(5)
    ]
    assert progress == [[0], [1], [2], [2], [3]]
    assert oracles.phrase_states((A, A, A, B), [[(A, A, B)]])[0] == (False, True, [3], True)
    assert oracles.phrase_states((A, A, A, B, C), [[(A, A, B)]])[0] == (True, False, [0], True)


def test_alternative_is_prefix_of_the_other():
    # b continues a word.
    phrases, word_starts = [[(A,), (A, B)]], WORD_STARTS["all_but_b"]

    def state(*tokens):
        return oracles.phrase_states(tokens, phrases, False, word_starts)[0]

    assert state(A) == (False, True, [1, 1], True)
    assert state(A, B) == (False, True, [0, 2], True)
    assert state(A, B, B) == (False, False, [0, 0], True)
    assert state(A, B, C) == (True, False, [0, 0], True)
    assert state(A, A) == (True, False, [0, 0], True)


def test_shorter_alternative_ends_while_longer_has_progress():
    # The largest progress of (a, b, a) after a b a is 3, that of (a, b, c) is 1.
    states = oracles.phrase_states((A, B, A), [[(B, A), (A, B, A), (A, B, C)]])
    assert states == [(False, True, [2, 3, 1], True)]


def test_overlapping_phrases():
    phrases = [[(A, B)], [(B, C)]]
    assert done((A, B, C), phrases) == [True, True]
    assert done((A, B, C), phrases, in_order=True) == [True, False]
    states = oracles.phrase_states((A, B), phrases, in_order=True)
    assert states == [(False, True, [2], True), (False, False, [0], False)]
    states = oracles.phrase_states((A, B, B), phrases, in_order=True)
    assert states == [(True, False, [0], True), (False, False, [1], True)]
    assert done((A, B, B, C), phrases, in_order=True) == [True, True]
    assert done((B, C, A, B), phrases, in_order=True) == [True, False]


def test_chain_of_short_phrases_in_order():
    states = oracles.phrase_states((A, B, C), [[(A,)], [(B,)], [(C,)]], in_order=True)
    assert [each.met for each in states] == [True, True, False]
    assert [each.awaiting for each in states] == [False, False, True]


def test_word_start_only_counts_at_the_first_occurrence():
    # a b continues with b, which is no word start: the next occurrence of a counts.
    phrases, word_starts = [[(A,)], [(A,)]], WORD_STARTS["all_but_b"]
    assert done((A, B, A), phrases, True, word_starts) == [True, False]
    assert done((A, B, A, A), phrases, True, word_starts) == [True, True]


def test_missing_tokens():
    phrases = [[(A, B, A), (C, C)], [(B, B)]]
    counts = {
        tokens: oracles.num_missing_tokens(oracles.phrase_states(tokens, phrases), phrases)
        for tokens in [(), (A,), (A, B), (B,), (C, C), (C, C, B), (C, B, B)]
    }
    expected = {(): 4, (A,): 4, (A, B): 3, (B,): 3, (C, C): 2, (C, C, B): 1, (C, B, B): 2}
    assert counts == expected
    states = oracles.phrase_states((B,), phrases, in_order=True)
    assert oracles.num_missing_tokens(states, phrases) == 4


@pytest.mark.parametrize(
    "max_length, expected",
    # One beam follows the phrase: a, then b, then the best tokens.
    [(1, (A,)), (2, (A, B)), (3, (A, B, C)), (4, (A, B, C, C))],
)
def test_greedy_search(max_length, expected):
    log_probs_after = constant(0.15, 0.05, 0.2, 0.6)
    results = oracles.constrained_beam_search(
        log_probs_after, max_length, [[(A, B)]], beam_width=1, num_hypotheses=5
    )
    assert tokens_of(results) == [expected]
    log_prob = sum(log_probs_after(())[token] for token in expected)
    assert results[0][1:4] == pytest.approx((max_length, log_prob / max_length, log_prob))
    assert results[0][4] == (max_length > 1,)


def test_two_beams():
    # Step 1. Bank 1: a -2. Bank 2: c -.5, b -3. So a, c are open.
    # Step 2. Bank 0: ab -5. Bank 1: ca -2.5. Bank 2: cc -1, ac -2.5, cb -3.5. So ab, ca are open.
    # Step 3. Bank 0: abc -5.5, cab -5.5. Bank 1: caa -4.5. Bank 2: cac -3. So abc, caa are open.
    # Step 4. Bank 0: abcc -6, abc<end> -7, caab -7.5. Bank 1: caaa -6.5. Bank 2: caac -5.
    search = {"phrases": [[(A, B)]], "beam_width": 2, "num_hypotheses": 5}
    for max_length, expected in [
        (1, [((C,), -0.5), ((A,), -2)]),
        (2, [((A, B), -5), ((C, A), -2.5)]),
        (3, [((A, B, C), -5.5), ((C, A, A), -4.5)]),
        (4, [((A, B, C, C), -6), ((C, A, A, A), -6.5)]),
    ]:
        results = oracles.constrained_beam_search(
            lambda prefix: np.array([-2, -3, -1.5, -0.5]), max_length, **search
        )
        assert [(each[0], each[3]) for each in results] == expected


def test_awaiting_phrase_gets_its_best_word_start():
    # After a, the best 2 tokens continue the word. Only c is a word start.
    log_probs_after = constant(0.5, 0.4, 0.05, 0.05)
    results = oracles.constrained_beam_search(
        log_probs_after,
        2,
        [[(A,)]],
        word_starts=[False, False, False, True],
        beam_width=1,
        num_hypotheses=5,
    )
    # Bank 0: aa (a second occurrence at the end), ac. Bank 1: ab.
    assert tokens_of(results) == [(A, A)]
    results = oracles.constrained_beam_search(
        log_probs_after,
        3,
        [[(A, B)]],
        word_starts=[False, False, False, True],
        beam_width=1,
        num_hypotheses=5,
    )
    # After ab: aba .5 (1 missing), abb .4 (2 missing), abc .05 (0 missing). The end token has the
    # same probability as c and is no word start, so only c is a candidate of bank 0.
    assert tokens_of(results) == [(A, B, C)]


def test_required_tokens_can_be_blocked_ones():
    blocked = constant(0.5, 0.0, 0.2, 0.3)
    arguments = {"phrases": [[(B,)]], "beam_width": 1, "num_hypotheses": 5}
    results = oracles.constrained_beam_search(blocked, 2, **arguments)
    assert results[0][4] == (False,)
    results = oracles.constrained_beam_search(
        blocked, 2, required_log_probs_after=constant(0.4, 0.1, 0.2, 0.3), **arguments
    )
    assert tokens_of(results) == [(B, A)] and results[0][4] == (True,)
    assert results[0][3] == pytest.approx(math.log(0.1 * 0.5))


def test_forced_tokens():
    for seed, force in itertools.product(range(5), [(A,), (C, A), (B, B, B)]):
        log_probs_after = random_log_probs_after(seed)
        phrases, width = [[(A, B)], [(B,)]], 4**5
        arguments = {"in_order": True, "num_hypotheses": 10_000}
        result = oracles.constrained_beam_search(
            log_probs_after, 5, phrases, beam_width=width, force=force, **arguments
        )
        expected = oracles.constrained_enumeration(log_probs_after, 5, phrases, **arguments)
        assert result == [each for each in expected if each[0][: len(force)] == force]


def test_dead_ends():
    def log_probs_after(prefix):
        with np.errstate(divide="ignore"):
            # After a, only the end token is possible. b is never possible.
            return np.log([0, 0, 1.0, 0] if prefix[-1:] == (A,) else [0.6, 0, 0.1, 0.3])

    results = oracles.constrained_beam_search(
        log_probs_after, 3, [[(B,)]], beam_width=8, num_hypotheses=20
    )
    # Finished at the limit: cca, ccc. Dead ends: a, ca.
    assert tokens_of(results) == [(C, C, A), (C, C, C), (A,), (C, A)]
    assert not any(any(each[4]) for each in results)
    # With one beam, a remains, cannot be continued and is collected.
    results = oracles.constrained_beam_search(
        log_probs_after, 3, [[(B,)]], beam_width=1, num_hypotheses=20
    )
    assert tokens_of(results) == [(A,)]
    # Two beams, a and c: c has the two continuations ca and cc, so a is collected.
    results = oracles.constrained_beam_search(
        log_probs_after, 2, [[(B,)]], beam_width=2, num_hypotheses=20
    )
    assert tokens_of(results) == [(C, A), (C, C), (A,)]


def test_limit_of_zero():
    results = oracles.constrained_beam_search(constant(1, 1, 1), 0, [[(A,)]], beam_width=2)
    assert results == [((), 0, 0.0, 0.0, (False,))]
    enumeration = oracles.constrained_enumeration(constant(1, 1, 1), 0, [[(A,)]])
    assert results == enumeration
