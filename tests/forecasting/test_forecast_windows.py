import numpy as np
import pytest

from keras_attn.forecasting import forecast_windows


def test_windows_are_consecutive_and_end_with_the_series():
    time = np.arange(10.0)
    windows = forecast_windows(
        np.stack([time, -time], axis=-1),
        window=3,
        horizon=2,
        past_covariates=time[:, None] + 100,
        future_covariates=time[:, None] + 200,
        stride=2,
    )
    past, future = windows["past_targets"], windows["future_targets"]
    assert past[..., 0].tolist() == [[1, 2, 3], [3, 4, 5], [5, 6, 7]]
    assert future[..., 0].tolist() == [[4, 5], [6, 7], [8, 9]]
    np.testing.assert_array_equal(past[..., 1], -past[..., 0])
    np.testing.assert_array_equal(windows["past_covariates"], past[..., :1] + 100)
    np.testing.assert_array_equal(windows["future_covariates"], future[..., :1] + 200)


def test_windows_of_wrong_series_raise_an_error():
    with pytest.raises(ValueError, match=r"window \+ horizon = 5 time steps.*\(4, 1\)"):
        forecast_windows(np.ones((4, 1)), 3, 2)
    with pytest.raises(ValueError, match="same number of time steps"):
        forecast_windows(np.ones((6, 1)), 3, 2, past_covariates=np.ones((5, 1)))
    with pytest.raises(ValueError, match="same number of time steps"):
        forecast_windows(np.ones(6), 3, 2)


def test_masked_elements_are_missing_values():
    values = np.ma.masked_array(np.arange(6.0)[:, None], np.arange(6)[:, None] == 4)
    for targets in (values, list(values), values.astype(int)):
        windows = forecast_windows(targets, 4, 2)
        np.testing.assert_array_equal(windows["future_targets"], [[[np.nan], [5]]])
    with pytest.raises(ValueError, match="future_covariates. Received: nan at time step 4"):
        forecast_windows(np.zeros((6, 1)), 4, 2, None, values)


@pytest.mark.parametrize("kind", [np.int8, np.uint64])
def test_sizes_are_integers_of_python_or_numpy(kind):
    values = np.arange(300.0)[:, None]
    found = forecast_windows(values, kind(100), kind(100), stride=kind(50))
    for name, array in forecast_windows(values, 100, 100, stride=50).items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_infinite_targets_raise_an_error(value):
    targets = np.zeros((6, 2))
    targets[3, 1] = value
    with pytest.raises(ValueError, match="finite in float32.*inf at time step 3, column 1"):
        forecast_windows(targets, 4, 2)


def test_missing_covariates_raise_an_error_that_names_the_time():
    targets, known = np.zeros((8, 1)), np.zeros((8, 2))
    known[6, 1] = np.nan  # the last past of the windows ends at 5, the last future at 7
    forecast_windows(targets, 4, 2, known)
    with pytest.raises(
        ValueError, match="future_covariates. Received: nan at time step 6, col.* 1"
    ):
        forecast_windows(targets, 4, 2, None, known)
    known[2, 0] = np.inf
    with pytest.raises(ValueError, match="past_covariates. Received: inf at time step 2, column 0"):
        forecast_windows(targets, 4, 2, known)
