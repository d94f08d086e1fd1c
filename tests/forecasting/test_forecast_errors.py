import numpy as np
import pytest

from keras_attn.forecasting import interval_coverage, mean_absolute_scaled_error, sample_crps

NAN = np.nan


def test_mase_divides_by_the_seasonal_naive_error_of_the_history():
    history = [1.0, 5.0, 2.0, 8.0, NAN, 9.0]  # differences of two steps: 1, 3, missing, 1
    mase = mean_absolute_scaled_error([1.0, NAN, 3.0], [2.0, 0.0, 6.0], history, season=2)
    np.testing.assert_allclose(mase, 2.0 / (5 / 3))


def test_mase_of_a_constant_history_is_not_a_number():
    assert np.isnan(mean_absolute_scaled_error([1.0], [2.0], [3.0, 3.0, 3.0]))


def test_crps_equals_the_sum_over_all_pairs():
    generator = np.random.default_rng(0)
    samples, actual = generator.normal(size=(6, 4)), generator.normal(size=4)
    actual[1] = NAN
    expected = []
    for column in (0, 2, 3):
        x = samples[:, column]
        pairs = np.abs(x[:, None] - x[None]).sum() / (2 * 6 * 5)
        expected.append(np.abs(x - actual[column]).mean() - pairs)
    np.testing.assert_allclose(sample_crps(actual, samples), np.mean(expected))


def test_crps_of_samples_approaches_the_formula_for_a_normal_distribution():
    from scipy.stats import norm

    samples, y = norm.ppf((np.arange(5000) + 0.5) / 5000)[:, None], 0.7
    expected = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(sample_crps([y], samples), expected, atol=1e-3)


def test_crps_of_one_sample_is_the_absolute_error():
    assert sample_crps([1.0, 2.0], [[3.0, 2.0]]) == 1.0


def test_coverage_counts_observed_values():
    assert interval_coverage([1.0, 2.0, 3.0, NAN], [1, 1, 1, 1], [2, 2, 2, 2]) == 2 / 3


def test_season_is_a_positive_integer_of_python_or_numpy():
    assert mean_absolute_scaled_error([2.0], [1.0], [1.0, 2.0, 3.0], season=np.uint8(2)) == 0.5
    with pytest.raises(ValueError, match="season to be a positive integer. Received: season=0"):
        mean_absolute_scaled_error([2.0], [1.0], [1.0, 2.0, 3.0], season=0)


def test_masked_elements_are_missing_values():
    actual = np.ma.masked_array([1.0, 2.0, 99.0], [False, False, True])
    assert interval_coverage(actual, [1, 1, 1], [1, 2, 2]) == 1
    assert sample_crps(actual, [[1.0, 3.0, 0.0]]) == 0.5
    history = np.ma.masked_array([1.0, 2.0, 99.0, 4.0], [False, False, True, False])
    assert mean_absolute_scaled_error(actual, [1.0, 3.0, 0.0], history) == 0.5


def test_errors_of_wrong_shapes_name_the_shapes():
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        interval_coverage([1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="more than season=2"):
        mean_absolute_scaled_error([1.0], [1.0], [1.0, 2.0], season=2)
