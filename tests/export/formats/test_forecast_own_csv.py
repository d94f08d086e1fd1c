"""The runtime forecasts a CSV file without calendar columns as Keras does."""

import csv
import datetime

import numpy as np
import pytest
from keras_attn_runtime import Forecaster
from keras_attn_runtime._commands.main import main

from keras_attn.export import export_forecaster_onnx
from keras_attn.forecasting import (
    GaussianHead,
    PathSampler,
    covariate_scaling,
    forecast_model,
    read_series,
)
from tests.contracts import assert_close, numpy, randomize
from tests.forecasting.small_forecaster import HORIZON, small_forecaster

WINDOW = 8
CALENDAR = ["day_sin1", "day_cos1", "week_cos2"]
ARGUMENTS = {
    "insert_missing_rows": True,
    "fills": {"promo": 0.0},
}


def write_hours(path):
    """Writes two series of 20 hours below each other, and three future hours with `promo`."""
    generator = np.random.default_rng(0)
    rows = ["shop,time,note,sold,promo"]
    for shop, level in (("north", 10), ("south", 1000)):
        for hour in range(20 + HORIZON):
            time = datetime.datetime(2024, 3, 2, 7) + datetime.timedelta(hours=hour)
            sold = f"{level * generator.uniform(1, 2):.3f}" if hour < 20 else ""
            if (shop, hour) != ("south", 15):  # a missing row
                rows.append(f"{shop},{time:%Y-%m-%d %H:%M},x,{sold},{hour % 3 == 0:d}")
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a directory with `own.csv`, `forecaster.onnx` and the forecasts of Keras."""
    folder = tmp_path_factory.mktemp("hours")
    write_hours(folder / "own.csv")
    series = read_series(
        folder / "own.csv", ["sold"], "time", "shop", known_covariates=["promo"], **ARGUMENTS
    )
    series = [each.with_calendar(CALENDAR) for each in series]
    scaling = covariate_scaling(np.concatenate([each.covariates for each in series]))
    count = len(CALENDAR) + 1
    forecaster = small_forecaster(
        GaussianHead(),
        num_past_covariates=count,
        num_future_covariates=count,
        past_covariate_scaling=scaling,
        future_covariate_scaling=scaling,
    )
    model = forecast_model(PathSampler(forecaster, num_paths=3), WINDOW)
    randomize(forecaster)
    names = [*CALENDAR, "promo"]
    export_forecaster_onnx(
        model,
        folder / "forecaster.onnx",
        target_names=["sold"],
        past_covariate_names=names,
        future_covariate_names=names,
        time_column="time",
        calendar_columns=CALENDAR,
        series_column="shop",
    )
    inputs = {
        "past_targets": np.stack([each.targets[-WINDOW:] for each in series]),
        "past_covariates": np.stack([each.covariates[20 - WINDOW : 20] for each in series]),
        "future_covariates": np.stack([each.covariates[20:] for each in series]),
        "seeds": np.array([5, 6], "int32"),
    }
    assert np.isnan(inputs["past_targets"]).sum() == 1
    np.savez(folder / "keras.npz", **numpy(model(inputs)))
    return folder


def test_class_forecasts_a_long_file_as_keras(folder):
    expected = np.load(folder / "keras.npz")
    found = Forecaster(folder / "forecaster.onnx", num_threads=1).forecast_csv(
        folder / "own.csv", seed=5, **ARGUMENTS
    )
    assert [each.name for each in found] == ["north", "south"]
    assert str(found[1].times[-1]) == "2024-03-03 05:00:00"
    # Relative to the level: the second series has values of 1,000 to 2,000.
    for row, (each, level) in enumerate(zip(found, (10, 1000), strict=True)):
        assert_close(each.mean / level, expected["mean"][row] / level, 1e-4)
        assert_close(each.quantiles / level, expected["quantiles"][row] / level, 1e-4)


def test_command_forecasts_a_long_file_as_keras(folder, tmp_path):
    target = tmp_path / "out.csv"
    arguments = ["--input", str(folder / "own.csv"), "--output", str(target), "--seed", "5"]
    options = ["--insert-missing-rows", "--fill", "promo=0"]
    model = str(folder / "forecaster.onnx")
    assert main(["forecast", model, *arguments, *options, "--threads", "1"]) == 0
    with open(target, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["shop"] for row in rows] == ["north"] * HORIZON + ["south"] * HORIZON
    expected = np.load(folder / "keras.npz")["mean"].reshape(-1)
    np.testing.assert_allclose([float(row["sold_mean"]) for row in rows], expected, rtol=1e-4)


def test_forecast_depends_on_the_calendar(folder, tmp_path):
    """The same values one day earlier have other forecasts."""
    text = (folder / "own.csv").read_text()
    earlier = text.replace("2024-03-02", "2024-03-01").replace("2024-03-03", "2024-03-02")
    (tmp_path / "earlier.csv").write_text(earlier)
    forecaster = Forecaster(folder / "forecaster.onnx", num_threads=1)
    paths = folder / "own.csv", tmp_path / "earlier.csv"
    means = [forecaster.forecast_csv(path, **ARGUMENTS)[0].mean for path in paths]
    assert np.abs(means[0] - means[1]).max() > 1e-3
