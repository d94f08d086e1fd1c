import numpy as np
import pytest

from keras_attn._random.draw_index import draw_index
from tests.contracts import numpy, tensor


def draw(probs, uniforms):
    return numpy(draw_index(tensor(probs), tensor(uniforms)))


@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 100])
def test_each_index_has_its_share_of_the_numbers(size):
    """A grid of pairs of numbers, instead of random ones, gives the probabilities themselves."""
    probs = np.random.default_rng(size).dirichlet(np.ones(size)).astype("float32")
    side = 200
    grid = (np.arange(side, dtype="float32") + 0.5) / side
    uniforms = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    drawn = draw(np.tile(probs, (side**2, 1)), uniforms)
    assert drawn.shape == (side**2, 1) and drawn.dtype == np.int32
    shares = np.bincount(drawn[:, 0], minlength=size) / side**2
    np.testing.assert_allclose(shares, probs, atol=(1.2 if size < 100 else 0.5) / side)


def test_what_is_no_number_draws_some_index():
    probs = np.array([[np.nan] * 7, [0.0, 0.0, 1.0] + [0.0] * 4], "float32")
    wrong, right = draw(probs, np.full((2, 2), 0.5, "float32"))[:, 0]
    assert 0 <= wrong < 7 and right == 2


def test_what_has_no_probability_is_not_drawn():
    probs = np.zeros((4, 11), "float32")
    probs[:, [2, 9]] = 0.5
    ends = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32") * np.float32(1 - 2.0**-24)
    assert draw(probs, ends)[:, 0].tolist() == [2, 2, 9, 9]


def test_rows_may_sum_to_less_than_one():
    probs = np.array([[0.0, 0.2, 0.0, 0.2]], "float32")
    for number, index in ((0.49, 1), (0.51, 3)):
        assert draw(probs, np.full((1, 2), number, "float32")).item() == index


def test_the_largest_number_draws_the_last_index():
    for size in (3, 1000, 32000):
        probs = np.full((1, size), 1 / size, "float32")
        last = np.full((1, 2), 1 - 2.0**-24, "float32")
        assert draw(probs, last).item() == size - 1
