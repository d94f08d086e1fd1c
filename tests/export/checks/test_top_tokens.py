import numpy as np
import pytest

from keras_attn.export._checks.top_tokens import largest_top_token_difference

IDS = np.array([[[[5, 3, 4], [7, 6, 3], [0, 0, 0]]]], "int32")
LOG_PROBS = np.array([[[[-0.5, -1.5, -1.75], [-0.25, -2.0, -1e9], [0, 0, 0]]]], "float32")
WHERE = np.ones((1, 1), "bool")


def difference(ids, log_probs, where=WHERE):
    first, second = (
        {"top_token_ids": each, "top_token_log_probs": values}
        for each, values in ((IDS, LOG_PROBS), (ids, log_probs))
    )
    return largest_top_token_difference(first, second, where)


def changed(values, place, value):
    values = values.copy()
    values[0, 0][place] = value
    return values


def test_equal_tokens_have_no_difference():
    assert difference(IDS, LOG_PROBS) == 0
    assert difference(IDS[:, :, :2], LOG_PROBS[:, :, :2]) == 0  # other hypotheses are shorter
    assert largest_top_token_difference({}, {}, WHERE) == 0


def test_largest_difference_is_relative_below_minus_one():
    assert difference(IDS, changed(LOG_PROBS, (0, 0), -0.75)) == 0.25
    assert difference(IDS, changed(LOG_PROBS, (1, 1), -2.5)) == 0.25


def test_almost_equally_probable_tokens_can_change_places():
    log_probs = changed(LOG_PROBS, (0, 2), -1.5625)
    assert difference(changed(IDS, 0, [5, 4, 3]), log_probs) == pytest.approx(0.25 / 1.75)
    assert difference(changed(IDS, (0, 2), 6), LOG_PROBS) == 0  # another token as probable
    assert difference(changed(IDS, (1, 2), 5), LOG_PROBS) == 0  # another impossible token


def test_wrong_token_is_a_difference():
    assert difference(changed(IDS, (0, 0), 6), LOG_PROBS) == 1.25
    assert difference(changed(IDS, 0, [3, 5, 4]), LOG_PROBS) == 1
    assert difference(changed(IDS, (0, 0), 6), LOG_PROBS, ~WHERE) == 0


def test_nan_is_an_infinite_difference():
    assert difference(IDS, changed(LOG_PROBS, (1, 0), np.nan)) == np.inf
