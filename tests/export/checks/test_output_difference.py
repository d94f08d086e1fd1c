import numpy as np
import pytest

from keras_attn.export._checks.output_difference import difference, magnitudes

LOGITS = np.array([[130.0, 0.5, -90.0], [-80.0, 110.0, 70.0]], "float32")


def test_rounding_errors_are_relative_to_the_terms_of_a_sum():
    """A logit near 0 is a sum of large terms: 3e-4 is rounding at logits of 100."""
    found, _ = difference(LOGITS, LOGITS + np.float32(3e-4))
    assert found < 1e-5
    assert difference(LOGITS, LOGITS + np.float32(0.01))[0] > 1e-5


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1e3, 0.01], [2e3, 0.02]]),  # columns in different units
        np.array([[1e3, 2e3], [0.01, 0.02]]),  # rows of series in different units
        np.array([[-1e9, 0.01], [-1e9, 0.02]]),  # impossible tokens
        np.array([0.01, 1e3]),  # without rows and columns
    ],
)
def test_large_numbers_do_not_hide_errors_of_small_ones(value):
    is_small = np.abs(value) < 1
    assert difference(value, value + 1e-4 * is_small)[0] == pytest.approx(1e-4)


def test_magnitudes_are_at_least_those_of_the_values():
    value = np.random.default_rng(0).normal(size=(2, 3, 4)) * 1e3
    assert (magnitudes(value) >= np.abs(value)).all()
    assert magnitudes(np.array([[2.0, -3.0], [4.0, 1.0]])).tolist() == [[3, 3], [4, 3]]
