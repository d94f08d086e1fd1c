import json
import pickle

import numpy as np
import pytest
from keras_attn_runtime import Forecaster, ModelFileError, Translator

from tests.runtime.fake_forecaster import settings, write_forecaster

PAST = np.arange(20.0).reshape(2, 5, 2)


@pytest.fixture(scope="module")
def forecaster(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecaster") / "forecaster.onnx"
    return Forecaster(write_forecaster(path), num_threads=1)


@pytest.fixture(scope="module")
def with_covariates(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecaster") / "forecaster.onnx"
    write_forecaster(path, window=5, past=("c",), future=("d", "e"))
    return Forecaster(path, num_threads=1)


def test_forecaster_returns_all_outputs(forecaster):
    results = forecaster({"past_targets": PAST}, seed=3)
    np.testing.assert_array_equal(results["mean"], np.repeat(PAST[:, -1:], 3, axis=1))
    np.testing.assert_array_equal(
        results["quantiles"][:, 0, 0], [[7.0, 8.0, 11.0], [17.0, 18.0, 22.0]]
    )
    assert results["mean"].dtype == np.float32


def test_batches_and_seeds_do_not_mix_series(forecaster):
    together = forecaster({"past_targets": PAST}, seeds=[5, 1])
    apart = forecaster({"past_targets": PAST}, seeds=[5, 1], batch_size=1)
    for name, value in together.items():
        np.testing.assert_array_equal(apart[name], value)
    np.testing.assert_array_equal(together["quantiles"][:, 0, 0, 2], [8.0 + 5, 18.0 + 1])


def test_missing_values_of_targets_are_accepted(forecaster):
    past = PAST.copy()
    past[0, 1, 0] = np.nan
    assert np.isfinite(forecaster({"past_targets": past})["mean"]).all()


def test_masked_values_are_missing_values(forecaster, with_covariates):
    masked = np.ma.masked_array(PAST, PAST == 18)  # the last time step, which the file repeats
    for values in (masked, list(masked), masked.astype(int)):
        mean = forecaster({"past_targets": values})["mean"]
        np.testing.assert_array_equal(mean[1, 0], [np.nan, 19])
    unmasked = np.ma.masked_array(PAST.astype(int), False)
    assert forecaster({"past_targets": unmasked})["mean"][1, 0].tolist() == [18, 19]
    arrays = {
        "past_targets": PAST,
        "past_covariates": np.ma.masked_array(np.zeros((2, 5, 1)), True),
        "future_covariates": np.zeros((2, 3, 2)),
    }
    with pytest.raises(ValueError, match="numbers without NaN in 'past_cov"):
        with_covariates(arrays)


def test_forecaster_can_be_pickled(forecaster):
    copy = pickle.loads(pickle.dumps(forecaster))
    results = [each({"past_targets": PAST})["mean"] for each in (forecaster, copy)]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    "arrays, message",
    [
        ([1.0], "Expected a dict of arrays"),
        ({"past": PAST}, r"inputs \['past_targets'\]. Received: \['past'\]"),
        ({"past_targets": PAST[0]}, r"Expected shape \(batch, past_targets_1, 2\)"),
        ({"past_targets": PAST[..., :1]}, r"Received: shape=\(2, 5, 1\)"),
        ({"past_targets": PAST[:, :1]}, "at least 2 time steps"),
        ({"past_targets": PAST[:0]}, "at least one"),
        ({"past_targets": np.full((1, 5, 2), "x")}, "Expected numbers"),
        ({"past_targets": np.full((1, 5, 2), np.inf)}, "10 other values"),
        ({"past_targets": np.full((1, 5, 2), 1e300)}, "finite float32 numbers"),
    ],
)
def test_wrong_arrays_raise_an_error(forecaster, arrays, message):
    with pytest.raises(ValueError, match=message):
        forecaster(arrays)


def test_wrong_covariates_raise_an_error(with_covariates):
    right = {
        "past_targets": PAST,
        "past_covariates": np.ones((2, 5, 1)),
        "future_covariates": np.ones((2, 3, 2)),
    }
    assert with_covariates(right)["mean"].shape == (2, 3, 2)
    wrong = {
        r"inputs \['future": {name: right[name] for name in ("past_targets", "past_covariates")},
        r"shape \(batch, 3, 2\) for 'future": {**right, "future_covariates": np.ones((2, 4, 2))},
        "without NaN in 'future": {**right, "future_covariates": np.full((2, 3, 2), np.nan)},
        "same number of series": {**right, "past_covariates": np.ones((3, 5, 1))},
        r"shape \(batch, 5, 2\)": {**right, "past_targets": PAST[:, 1:]},
    }
    for message, arrays in wrong.items():
        with pytest.raises(ValueError, match=message):
            with_covariates(arrays)


def test_wrong_seeds_raise_an_error(forecaster):
    with pytest.raises(ValueError, match="one seed for each of 2 series"):
        forecaster({"past_targets": PAST}, seeds=[1])
    with pytest.raises(ValueError, match="seed to be an integer"):
        forecaster({"past_targets": PAST}, seed=-1)


def test_forecast_csv_returns_times_and_forecasts_of_each_series(tmp_path):
    path = tmp_path / "forecaster.onnx"
    names = ["week_sin1"]
    columns = {"calendar_columns": names, "time_column": "day", "series_column": "shop"}
    write_forecaster(path, past=names, future=names, **columns)
    (tmp_path / "in.csv").write_text(
        "shop;day;a;b\nx;2024-01-01;1,5;2\nx;2024-01-02;3,5;4\ny;2024-03-01;5;6\ny;2024-03-02;7;8\n"
    )
    forecaster = Forecaster(path, num_threads=1)
    options = {"delimiter": ";", "decimal": ",", "seed": 3}
    first, second = forecaster.forecast_csv(tmp_path / "in.csv", **options)
    assert (first.name, second.name) == ("x", "y")
    assert [str(time) for time in second.times] == ["2024-03-03", "2024-03-04", "2024-03-05"]
    np.testing.assert_array_equal(first.mean, [[3.5, 4.0]] * 3)
    np.testing.assert_array_equal(second.quantiles[2], [[6, 7, 11], [7, 8, 12]])  # seed 4
    # Other columns than that of the file: each row is a series; and one series, with a gap.
    for column, message in (("a", "of the series '1,5'"), ("", "Received: 2024-03-01 in line 4")):
        with pytest.raises(ValueError, match=message):
            forecaster.forecast_csv(tmp_path / "in.csv", series_column=column, **options)


def test_files_of_other_kinds_name_the_class_that_runs_them(model_path, tmp_path):
    with pytest.raises(ModelFileError, match="with a Translator"):
        Forecaster(model_path)
    path = write_forecaster(tmp_path / "forecaster.onnx")
    with pytest.raises(ModelFileError, match="with a Forecaster"):
        Translator(path)


@pytest.mark.parametrize(
    "series, message",
    [
        ({"horizon": 0}, "series.horizon=0"),
        ({"quantiles": [2]}, "series.quantiles"),
        ({"past_covariates": ["c"]}, "numbers of columns"),
        ({"targets": "ab"}, "series.targets"),
        ({"series_column": 5}, "series.series_column"),
        ({"calendar_columns": ["week_sin1"]}, "series.calendar_columns"),
    ],
)
def test_damaged_settings_raise_an_error(tmp_path, series, message):
    entries = settings()
    entries["series"] |= series
    properties = {"keras_attn.settings": json.dumps(entries)}
    path = write_forecaster(tmp_path / "forecaster.onnx", properties)
    with pytest.raises(ModelFileError, match=message):
        Forecaster(path)
