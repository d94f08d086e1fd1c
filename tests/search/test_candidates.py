import numpy as np
import pytest

from keras_attn._search.candidates import Candidates, find_candidates
from keras_attn._search.end_tokens import Ends
from tests.contracts import assert_close, assert_identical, numpy, tensor

GENERATOR = np.random.default_rng(0)
BATCH, BEAMS, SIZE = 2, 3, 7
NEXT = np.log(GENERATOR.dirichlet(np.ones(SIZE), BATCH * BEAMS)).astype("float32")
BEAM = -GENERATOR.random((BATCH, BEAMS)).astype("float32")
PENALTIES = np.array([-1e9] + [0] * (SIZE - 1), "float32")
TENSORS = [tensor(each) for each in (NEXT, BEAM, PENALTIES)]


def test_find_candidates_equals_sorting_all_continuations():
    found = find_candidates(*TENSORS, {0}, with_token_log_probs=True)
    following = NEXT.reshape(BATCH, BEAMS, SIZE) + PENALTIES
    totals = (BEAM[:, :, None] + following).reshape(BATCH, -1)
    order = np.argsort(-totals, axis=1)[:, : 2 * BEAMS]
    assert_close(numpy(found.log_probs), np.take_along_axis(totals, order, axis=1))
    assert_identical(numpy(found.parents), order // SIZE)
    assert_identical(numpy(found.token_ids), order % SIZE)
    own = np.take_along_axis(following.reshape(BATCH, -1), order, axis=1)
    assert_close(numpy(found.token_log_probs), own)
    assert found.is_dead_end is None


def test_find_candidates_continues_the_first_beam_with_forced_tokens():
    forced_log_probs = tensor(np.full((BATCH, BEAMS), -2.0, "float32"))
    forced = (tensor([[4], [5]]), forced_log_probs, tensor([[True], [False]]))
    found = find_candidates(*TENSORS, {0}, forced, with_token_log_probs=True)
    free = find_candidates(*TENSORS, {0})
    tokens, log_probs = numpy(found.token_ids), numpy(found.log_probs)
    assert tokens[0, 0] == 4 and numpy(found.token_log_probs)[0, 0] == -2
    assert_close(log_probs[0, 0], BEAM[0, 0] - 2)
    assert (log_probs[0, 1:] < -1e9).all()
    assert_identical(tokens[1], numpy(free.token_ids)[1])
    assert_identical(log_probs[1], numpy(free.log_probs)[1])


def test_find_candidates_marks_a_beam_without_continuation():
    following = np.full((BATCH, BEAMS, SIZE), -1e9, "float32")
    following[:, :2, 3] = -1.0  # the third beam has no possible token
    found = find_candidates(
        tensor(following.reshape(-1, SIZE)), *TENSORS[1:], {0}, dead_end_token_id=0
    )
    is_dead_end = numpy(found.is_dead_end)
    assert is_dead_end.sum(axis=1).tolist() == [1, 1]
    assert numpy(found.parents)[is_dead_end].tolist() == [2, 2]
    assert numpy(found.token_ids)[is_dead_end].tolist() == [0, 0]
    assert_identical(numpy(found.log_probs)[is_dead_end], BEAM[:, 2])


@pytest.mark.parametrize(
    ("is_dead_end", "expected"), [(None, [True, False]), ([[True, False]], [False, False])]
)
def test_candidates_end_with_a_token_unless_they_are_dead_ends(is_dead_end, expected):
    is_dead_end = None if is_dead_end is None else tensor(is_dead_end)
    candidates = Candidates(None, None, tensor([[2, 3]]), is_dead_end)
    is_end, number = candidates.find_ends(Ends([2]))
    assert numpy(is_end)[0].tolist() == numpy(number)[0].tolist() == expected
