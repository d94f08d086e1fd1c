import numpy as np
import pytest

from keras_attn.search import logits
from tests.contracts import assert_identical, numpy

LOGITS = np.random.default_rng(0).normal(size=(3, 6)).astype("float32")


def test_suppressed_tokens_are_impossible_and_others_as_they_were():
    received = numpy(logits.suppress(LOGITS, [0, 4]))
    assert (received[:, [0, 4]] < -1e8).all()
    assert_identical(received[:, [1, 2, 3, 5]], LOGITS[:, [1, 2, 3, 5]])
    assert_identical(numpy(logits.suppress(LOGITS, [])), LOGITS)


def test_candidates_are_suppressed_by_the_tokens_that_they_are():
    tokens = np.array([[0, 5, 2], [4, 3, 0], [1, 2, 3]], "int32")
    values = np.take_along_axis(LOGITS, tokens, axis=1)
    received = numpy(logits.suppress_candidates(values, tokens, [0, 4], 6))
    expected = np.isin(tokens, [0, 4])
    assert_identical(received < -1e8, expected)
    assert_identical(received[~expected], values[~expected])
    assert_identical(numpy(logits.suppress_candidates(values, tokens, [], 6)), values)


@pytest.mark.parametrize(("step", "suppressed"), [(0, True), (2, True), (3, False), (9, False)])
def test_a_token_is_suppressed_until_there_are_enough(step, suppressed):
    received = numpy(logits.suppress_before(LOGITS, 2, np.int32(step), min_length=3))
    assert (received[:, 2] < -1e8).all() == suppressed
    others = [0, 1, 3, 4, 5] + [] if suppressed else list(range(6))
    assert_identical(received[:, others], LOGITS[:, others])
