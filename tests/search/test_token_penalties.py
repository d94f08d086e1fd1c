import numpy as np
import pytest

from keras_attn._search.token_penalties import token_penalties
from tests.contracts import assert_identical, numpy


@pytest.mark.parametrize("suppressed", [[], [0, 4], [4, 0, 4]])
def test_suppressed_tokens_are_impossible(suppressed):
    received = numpy(token_penalties(6, suppressed, [2], np.int32(0), min_length=0))
    assert_identical(received < -1e8, np.isin(np.arange(6), suppressed))
    assert set(received) <= {0.0, np.float32(-1e9)}


@pytest.mark.parametrize(("step", "early"), [(0, True), (2, True), (3, False), (9, False)])
def test_the_end_is_impossible_until_there_are_enough(step, early):
    received = numpy(token_penalties(6, [0], [2], np.int32(step), min_length=3))
    assert_identical(received < -1e8, np.isin(np.arange(6), [0, 2] if early else [0]))
