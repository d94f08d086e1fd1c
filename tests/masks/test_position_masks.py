import numpy as np
import pytest

from keras_attn import (
    masks,
)
from tests.contracts import numpy


def test_padding_mask_marks_what_is_not_the_padding_id():
    token_ids = np.array([[5, 0, 9], [9, 9, 0]])
    assert numpy(masks.padding_mask(token_ids)).tolist() == [
        [True, False, True],
        [True, True, False],
    ]
    assert numpy(masks.padding_mask(token_ids, pad_token_id=9)).tolist() == [
        [True, True, False],
        [False, False, True],
    ]


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_position_mask_joins_the_causal_mask_and_the_window(causal, window):
    query_positions, key_positions = np.array([[3, 4]]), np.array([[2, 3, 4, 5]])
    mask = masks.position_mask(query_positions, key_positions, causal, window)
    distances = key_positions[0] - query_positions[0][:, None]
    expected = (distances <= 0) if causal else np.ones((2, 4), "bool")
    if window is not None:
        expected = expected & (abs(distances) < window)
    if not causal and window is None:
        assert mask is None
    else:
        assert numpy(mask)[0].tolist() == expected.tolist()
