import numpy as np
import pytest

from keras_attn import _masks as masks
from tests.contracts import numpy


@pytest.mark.parametrize(
    ("row", "length"),
    [
        ([5, 0, 9, 7], 4),
        ([0, 5, 0, 0], 2),
        ([0, 0, 0, 0], 0),
        ([0, 0, 0, 1], 4),
        ([5, 0, -1, 0], 2),
        ([0, -1, -1, -1], 1),
        ([5, 6, 7, 0], 3),
        ([-1, 0, 0, 0], 0),
        ([], 0),
    ],
)
def test_padding_mask_marks_the_tokens_before_padding(row, length):
    for pad in (0, 9):
        token_ids = np.array([row, row], "int32")
        token_ids = np.where(token_ids == 0, pad, np.where(token_ids == 9, 0, token_ids))
        expected = [position < length for position in range(len(row))]
        assert numpy(masks.padding_mask(token_ids, pad)).tolist() == [expected, expected]


def test_padding_mask_of_a_vector_and_of_several_axes():
    assert numpy(masks.padding_mask(np.array([0, 3, 0]))).tolist() == [True, True, False]
    rows = np.array([[[4, 0], [0, 4]], [[0, 0], [4, -1]]])
    assert numpy(masks.padding_mask(rows)).tolist() == [
        [[True, False], [True, True]],
        [[False, False], [True, False]],
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
