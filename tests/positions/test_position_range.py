import numpy as np
import pytest
from keras import ops

from keras_attn._positions.position_range import position_range
from tests.contracts import numpy


@pytest.mark.parametrize(
    ("start_index", "expected"),
    [
        (0, [[0, 1, 2]]),
        (7, [[7, 8, 9]]),
        (np.int64(7), [[7, 8, 9]]),
        (np.array([4, 0, -1]), [[4, 5, 6], [0, 1, 2], [-1, 0, 1]]),
    ],
)
def test_counts_from_the_start_index(start_index, expected):
    for start in (start_index, ops.convert_to_tensor(start_index)):
        positions = numpy(position_range(3, start))
        assert positions.dtype == "int32"
        assert positions.tolist() == expected


def test_a_start_index_of_two_axes_is_refused():
    with pytest.raises(ValueError, match=r"Received: start_index with shape \(2, 1\)"):
        position_range(3, np.zeros((2, 1), "int32"))
