import numpy as np
import pytest

from keras_attn.forecasting import Series, covariate_scaling, generate_series, split_windows


def counting_series(length, start=0, name=""):
    """A series whose values and covariates are the numbers of the rows."""
    rows = np.arange(start, start + length, dtype="float32")[:, None]
    future = np.arange(start, start + length + 2, dtype="float32")[:, None]
    return Series(list(range(length + 2)), rows, future, name)


def test_windows_of_two_series_do_not_mix_and_follow_in_time():
    series = [counting_series(20), counting_series(15, start=100, name="b")]
    train, valid, test = split_windows(series, window=4, horizon=2, origins=3)
    assert train["past_targets"][:, 0, 0].tolist() == [*range(7), 100, 101]
    # The first series ends before row 20: training before 12, validation 12 and 13, then the test.
    assert train["future_targets"][6, :, 0].tolist() == [10, 11]
    assert valid["future_targets"][..., 0].tolist() == [[12, 13], [107, 108]]
    expected = [[14, 15], [16, 17], [18, 19], [109, 110], [111, 112], [113, 114]]
    assert test["future_targets"][..., 0].tolist() == expected
    for part in (train, valid, test):
        whole = np.concatenate([part["past_targets"], part["future_targets"]], axis=1)[..., 0]
        assert (np.diff(whole) == 1).all()
        np.testing.assert_array_equal(part["past_covariates"], part["past_targets"])
        np.testing.assert_array_equal(part["future_covariates"], part["future_targets"])


def test_validation_of_a_single_series_has_each_end_of_the_horizon():
    _, valid, test = split_windows([counting_series(20)], window=4, horizon=3, origins=1)
    assert valid["future_targets"][:, -1, 0].tolist() == [14, 15, 16]
    assert test["future_targets"][..., 0].tolist() == [[17, 18, 19]]


def test_shortest_possible_series_has_one_training_window():
    train, _, _ = split_windows([counting_series(4 + 5 * 2)], window=4, horizon=2, origins=3)
    assert train["past_targets"][..., 0].tolist() == [[0, 1, 2, 3]]
    series = [counting_series(20), counting_series(13, name="b")]
    with pytest.raises(ValueError, match="= 14 rows of the series 'b'. Received: 13 rows"):
        split_windows(series, window=4, horizon=2, origins=3)


def test_generated_series_have_a_season_and_different_levels():
    series = generate_series(number=20, length=120)
    values = np.stack([each.targets[:, 0] for each in series])
    assert values.shape == (20, 120) and np.isfinite(values).all()
    assert (values == [each.targets[:, 0] for each in generate_series(20, 120)]).all()
    level = np.abs(values).mean(axis=1, keepdims=True)
    assert level.max() > 20 * level.min()
    scaled = values / level
    differences = [np.abs(scaled[:, lag:] - scaled[:, :-lag]).mean() for lag in (6, 12)]
    assert differences[1] < 0.7 * differences[0]
    assert str(series[3].times[13]) == "2011-02-01" and series[3].name == "4"


def test_covariates_are_scaled_to_their_range():
    known = np.array([[79.0, 0, 5], [99.0, 1, 5], [89.0, 0, 5]])
    shift, scale = covariate_scaling(known)
    scaled = (known - shift) / scale
    np.testing.assert_array_equal(scaled, [[-1, -1, 0], [1, 1, 0], [0, -1, 0]])
