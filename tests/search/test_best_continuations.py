import numpy as np
import pytest

from keras_attn._search.best_continuations import _sizes, best_continuations
from tests.contracts import assert_identical, numpy, tensor


@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize("penalized", [[], [0, 1, 2], [0, 5, 46], list(range(40))])
@pytest.mark.parametrize("vocabulary_size", [47, 48, 600])  # a prime, and many divisors
@pytest.mark.parametrize("beams", [1, 4])
def test_equals_sorting_all(beams, vocabulary_size, penalized, more):
    rng = np.random.default_rng(vocabulary_size)
    # Few different numbers, so that many continuations are equal; all exact in float32.
    token_log_probs = -rng.integers(0, 9, (3 * beams, vocabulary_size)).astype("float32")
    token_log_probs[:, penalized] += 8  # those that must not be chosen are the best
    log_probs = -rng.integers(0, 5, (3, beams)).astype("float32")
    penalties = np.zeros(vocabulary_size, "float32")
    penalties[penalized] = -1024.0
    arrays = map(tensor, (token_log_probs, log_probs, penalties))
    received = best_continuations(*arrays, penalized, beams=beams, most_beams=beams + more)

    totals = token_log_probs.reshape(3, beams, -1) + log_probs[:, :, None] + penalties
    totals = totals.reshape(3, -1)
    order = np.argsort(-totals, axis=1, kind="stable")[:, : 2 * beams]
    parents, tokens = np.divmod(order, vocabulary_size)
    assert_identical(numpy(received[0]), np.take_along_axis(totals, order, axis=1))
    assert_identical(numpy(received[1]), parents.astype("int32"))
    assert_identical(numpy(received[2]), tokens.astype("int32"))


def test_chooses_what_it_must_when_there_is_nothing_else():
    received = best_continuations(
        tensor([[-1.0, -3.0], [-2.0, -5.0]], "float32"),
        tensor([[0.0, -1.5]], "float32"),
        tensor([0.0, -1e9], "float32"),
        [1],
        beams=2,
        most_beams=2,
    )
    assert_identical(numpy(received[0][:, :2]), np.array([[-1.0, -3.5]], "float32"))
    assert_identical(numpy(received[1])[:, :2], np.array([[0, 1]], "int32"))
    assert np.all(numpy(received[0])[:, 2:] < -9e8)


@pytest.mark.parametrize(("vocabulary_size", "rest"), [(8000, 0), (50257, 0), (8009, 1), (8002, 1)])
def test_sorts_few_numbers_of_a_large_vocabulary(vocabulary_size, rest):
    block_size, blocks_per_beam = _sizes(vocabulary_size, 4, {0, 1, 2})
    num_chosen = 4 * blocks_per_beam
    assert num_chosen == 8 + 4
    assert 4 * vocabulary_size // block_size + num_chosen * block_size < 0.2 * vocabulary_size
    assert (vocabulary_size % block_size > 0) == rest  # copied only where it has no good divisor
