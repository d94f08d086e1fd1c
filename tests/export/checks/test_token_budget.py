"""The comparison of an export with Keras computes a bounded number of tokens."""

import types

import numpy as np
import pytest

from keras_attn._models.vocabulary_side import Side
from keras_attn.export._checks.parity_sentences import random_sentences
from keras_attn.export._checks.parity_sources import IdSources
from keras_attn.export._checks.token_budget import LEAST_ROWS, TokenBudget, usual_length
from keras_attn.export._checks.verify import translated_batches

SIDE = Side(50, pad_token_id=0, start_token_id=None, end_token_id=2, add_end=True)
OPUS_MT = 74_000_000
SENTENCES = [*random_sentences(SIDE, 79), [5] * 64]


def compared(budget, max_length=511, length=None, num_given=0):
    """Returns a list of tuples (number of sources, source length, `max_length`, steps).

    The hypotheses have `length` tokens, or all that `max_length` allows, as with random weights.
    """
    search = types.SimpleNamespace(
        max_length=max_length,
        pad_token_id=0,
        is_stochastic=False,
        setting_value={"length_penalty": 1.0}.get,
    )
    found = []

    def run(source_ids, max_length, length_penalty):
        steps = min(int(max_length), length or int(max_length))
        found.append((*source_ids.shape, int(max_length), steps))
        shape = (len(source_ids), 1)
        return {"token_ids": np.ones((*shape, steps)), "lengths": np.full(shape, steps)}

    sources = IdSources(SENTENCES, num_given=num_given)
    assert len(list(translated_batches(run, sources, search, budget))) == len(found)
    return found


def cost(budget, batches):
    return sum(size * source + steps * budget.rows(size) for size, source, _, steps in batches)


@pytest.mark.parametrize("max_length", [8, 511, 100_000])
@pytest.mark.parametrize("batch_size", [None, 1, 8])
@pytest.mark.parametrize("hypotheses", [1, 6, 20])
@pytest.mark.parametrize("num_weights", [1000, OPUS_MT])
def test_budget_bounds_hypotheses_without_end(num_weights, hypotheses, batch_size, max_length):
    budget = TokenBudget(num_weights, hypotheses, batch_size)
    batches = compared(budget, max_length)
    assert cost(budget, batches) <= 1.05 * budget.tokens
    assert {size for size, *_ in batches} == {1, 7, 32, 31}  # several sizes
    assert sum(size for size, *_ in batches) == len(SENTENCES)
    assert min(steps for *_, steps in batches) >= 2
    # One long source is decoded as far as the limit or a quarter of the budget allows.
    *others, (size, source_length, limit, steps) = batches
    assert (size, source_length, steps) == (1, 64, limit)
    quarter = 0.25 * budget.tokens - 64
    assert limit == max_length or limit * budget.rows(1) > quarter - budget.rows(1)
    assert all(steps <= usual_length(source) for _, source, _, steps in others)


def test_budget_of_a_published_translator():
    """6 beams and a maximum length of 512: 200 sources without end took more than 28 minutes."""
    budget = TokenBudget(OPUS_MT, 6)
    batches = compared(budget)
    assert cost(budget, batches) <= 21_000 < 0.05 * 200 * 6 * 511
    assert max(steps for *_, steps in batches) > 100
    assert max(steps for size, _, _, steps in batches if size == 7) > 20


def test_budget_of_a_small_model_allows_usual_lengths():
    batches = compared(TokenBudget(100_000, 4))
    assert all(limit == usual_length(source) for _, source, limit, _ in batches[:-1:2])
    assert batches[-1][2] == 511


def test_tokens_that_short_hypotheses_leave_are_spent_on_others():
    budget = TokenBudget(OPUS_MT, 6)
    batches = compared(budget, length=5)
    assert batches[-1][2] > 1.5 * compared(budget)[-1][2]
    assert all(limit >= 5 for *_, limit, _ in batches[::2])  # nothing is cut


def test_given_sources_have_the_usual_length():
    budget = TokenBudget(OPUS_MT, 6)
    batches = compared(budget, num_given=40)
    assert [limit for *_, limit, _ in batches[:3:2]] == [
        usual_length(source) for _, source, *_ in batches[:3:2]
    ]
    assert batches[-1][2] > 100


def test_a_step_of_few_hypotheses_counts_as_many():
    assert TokenBudget(10, 1).rows(1) == LEAST_ROWS
    assert TokenBudget(10, 6).rows(32) == 192
    assert TokenBudget(10, 6, batch_size=1).rows(7) == 7 * LEAST_ROWS
    assert TokenBudget(10, 6, batch_size=8).rows(9) == 2 * 48
