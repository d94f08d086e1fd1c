import numpy as np
import pytest

from keras_attn._search import logits
from tests.contracts import assert_close, assert_identical, numpy


@pytest.mark.parametrize("suppressed", [[], [0, 4], [4, 0, 4]])
def test_suppressed_tokens_are_impossible(suppressed):
    received = numpy(logits.penalties(6, suppressed, [2], np.int32(0), min_length=0))
    assert_identical(received < -1e8, np.isin(np.arange(6), suppressed))
    assert set(received) <= {0.0, np.float32(-1e9)}


@pytest.mark.parametrize(("step", "early"), [(0, True), (2, True), (3, False), (9, False)])
def test_the_end_is_impossible_until_there_are_enough(step, early):
    received = numpy(logits.penalties(6, [0], [2], np.int32(step), min_length=3))
    assert_identical(received < -1e8, np.isin(np.arange(6), [0, 2] if early else [0]))


def test_log_softmax_of_infinite_logits():
    inf = np.inf
    rows = [[1.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 0.0, inf], [-inf, 5.0, -inf]]
    found = numpy(logits.log_softmax_of_infinite(np.array(rows, "float32")))
    half = np.log(0.5)
    expected = [[half, 1, half], [1, 1, 1], [half, 1, half], [1, 0, 1]]
    assert_close(np.where(found > logits.IMPOSSIBLE / 2, found, 1.0), np.array(expected, "float32"))


def test_log_softmax_of_nan_is_nan():
    row = np.array([[np.nan, -np.inf, 1.0]], "float32")
    assert np.isnan(numpy(logits.log_softmax_of_infinite(row))).all()
