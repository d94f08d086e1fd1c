"""The program that trains forecasters: its settings by the data, its errors, and whole runs."""

import csv
import datetime
import json
import tomllib

import numpy as np
import pytest

pytest.importorskip("keras_attn_runtime")

from keras_attn.forecasting import Series, generate_series
from keras_attn.training import RunDirectory
from keras_attn_commands.main import main
from keras_attn_commands.train import forecast
from keras_attn_commands.train.forecast_settings import ForecastSettings
from keras_attn_commands.train.settings import check_settings
from tests.examples.sales_file import write_sales

SMALL = "--units 4 --epochs 1 --paths 5 --origins 2".split()
SALES = "--targets sales --known-covariates price,holiday --fill holiday=0".split()


def train(*arguments):
    return main(["train", "forecast", *map(str, arguments)])


def settings_of(**values):
    settings = ForecastSettings(**values)
    check_settings(settings)
    return settings


def hours(number, name=""):
    start = datetime.datetime(2024, 1, 1)
    times = [start + datetime.timedelta(hours=hour) for hour in range(number)]
    values = np.arange(number, dtype="float32")[:, None]
    return Series(times, values, np.zeros((number, 0), "float32"), name)


def test_settings_follow_the_season():
    warnings = []
    settings = settings_of()
    series, reasons = forecast.choose_settings(
        settings, [hours(2000, "a"), hours(1500, "b"), hours(200, "c")], warnings.append
    )
    assert (settings.season, settings.horizon, settings.window) == (24, 24, 96)
    assert settings.lags == [24, 48, 72, 96] and "week_sin1" in settings.calendar
    assert [each.name for each in series] == ["a", "b"]
    assert series[0].covariates.shape == (2000, len(settings.calendar))
    assert "1 of 3 series have less than window + (origins + 2) * horizon = 216 rows" in warnings[0]
    assert warnings[0].endswith("left out: c.")
    assert reasons["window"] and "origins" not in reasons
    parts = forecast.split_windows(series, 96, 24, 3)
    assert reasons["stride"] == f"{len(parts[0]['past_targets']):,} windows"


@pytest.mark.parametrize("head", ["student_t", "gaussian", "quantile", "point"])
def test_every_head_is_created(head):
    settings = settings_of(head=head, units=2, season=12, horizon=3)
    series, _ = forecast.choose_settings(settings, generate_series(2), print)
    forecaster = forecast._make_forecaster(settings, series)
    assert type(forecaster.head).__name__.lower() == f"{head.replace('_', '')}head"
    assert forecaster.scaling == "std" and forecaster.num_future_covariates == 4


@pytest.mark.parametrize(
    "delimiter, decimal, text",
    [
        ("semicolon", "comma", "date;value\n2024-01-01;1,5\n"),
        ("tab", "point", "date\tvalue\n2024-01-01\t1.5\n"),
        ("comma", "comma", 'date,value\n2024-01-01,"1,5"\n'),
    ],
)
def test_files_of_spreadsheets_are_read(tmp_path, delimiter, decimal, text):
    (tmp_path / "a.csv").write_text(text)
    settings = settings_of(delimiter=delimiter, decimal=decimal)
    (series,) = forecast._read_data(settings, [tmp_path / "a.csv"])
    assert series.targets.tolist() == [[1.5]]


def test_given_settings_are_kept_and_lags_follow_the_horizon():
    settings = settings_of(horizon=30, season=7, lags="", calendar="")
    forecast.choose_settings(settings, [hours(2000)], print)
    assert (settings.horizon, settings.lags, settings.calendar) == (30, [], [])
    settings = settings_of(horizon=30)
    forecast.choose_settings(settings, [hours(2000)], print)
    assert settings.window == 96 and settings.lags == [48, 72, 96]


def test_many_windows_have_a_stride_and_fewer_epochs():
    settings = settings_of(window=10, horizon=2)
    forecast.choose_settings(settings, [hours(250_000)], print)
    assert settings.stride == 3 and settings.batch_size == 128 and settings.epochs == 3
    small = settings_of()
    forecast.choose_settings(small, generate_series(1), print)
    assert small.stride == 1 and small.batch_size == 32 and small.epochs == 34  # of 3 steps


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--targets", "a"], "Expected --data FILE for --targets"),
        (["--data", "{tmp}"], "Expected files *.csv in --data"),
        (["--data", "{tmp}/none.csv"], "none.csv, which does not exist. Check the path."),
        (["--data", "{sales}"], "Expected the columns ['value'] in the file. Received: ['date', "),
        (["--data", "{sales}", *SALES, "--fill", "price=x"], "Expected --fill to be NAME=NUMBER"),
        (["--data", "{sales}", *SALES[:2], "--fill", "sales=0"], "Expected --fill of the columns"),
        (["--data", "{sales}", *SALES], "Use --insert-missing-rows"),
        (
            ["--data", "{sales}", *SALES, "--insert-missing-rows"],
            "the inserted row 2021-01-21. Received: an empty cell. Fill in the cell, or use --fill",
        ),
        (["--data", "{long}", "--time-column", "day"], "lines 2 and 4. Keep one of the rows. If "),
        (
            ["--data", "{long}", "--time-column", "day", "--series-column", "id"],
            "Expected series of at least window + (origins + 2) * horizon",
        ),
    ],
)
def test_wrong_data_is_one_line_that_names_the_option(tmp_path, capsys, arguments, message):
    (tmp_path / "empty").mkdir()
    paths = {"tmp": tmp_path / "empty", "sales": tmp_path / "s.csv", "long": tmp_path / "l.csv"}
    write_sales(paths["sales"], days=90, future=5, missing=(20, 21, 50))
    paths["long"].write_text("id,day,value\nx,1,5\nx,2,6\ny,1,7\ny,2,8\n")
    arguments = [each.format(**paths) for each in arguments]
    assert train(*arguments, "--run-dir", tmp_path / "run") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Stopped. ") and message in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_program_trains_on_sales_and_the_runtime_forecasts_the_same_file(tmp_path, capsys):
    from keras_attn_runtime._commands.main import main as run

    write_sales(tmp_path / "sales.csv", days=90, future=7, missing=(20, 21, 50))
    options = [*SALES[:-1], "holiday=0,price=previous", "--insert-missing-rows", *SMALL]
    arguments = ["--data", tmp_path / "sales.csv", "--run-dir", tmp_path / "run", *options]
    assert train(*arguments) == 0
    output = capsys.readouterr().out
    assert "season = 7  # by the times" in output and "lags = [7, 14, 21]" in output
    assert "Next:\n  keras-attn export onnx" in output and "epoch 1 of 1: loss" in output
    folder = tmp_path / "run"
    results = json.loads((folder / "results.json").read_text())
    assert results["test_points"] == 14 and 0 <= results["targets"]["sales"]["coverage"] <= 1
    assert (folder / "forecast.png").stat().st_size > 10_000
    settings = tomllib.loads((folder / "settings.toml").read_text())
    assert settings["window"] == 25
    calendar = RunDirectory(folder).series.calendar_columns
    assert calendar == settings["calendar"] and "week_cos3" in calendar
    assert not any(name.startswith("year") for name in calendar)  # 90 days

    assert train(*arguments) == 0  # finished: nothing is trained again
    assert "epoch 1 of 1" not in capsys.readouterr().out
    assert json.loads((folder / "results.json").read_text()) == results
    assert train(*arguments, "--units", 5) == 1
    assert "units = 4 (now 5)" in capsys.readouterr().err

    model = str(tmp_path / "forecaster.onnx")
    assert main(["export", "onnx", str(folder), model]) == 0
    capsys.readouterr()
    own = ["--insert-missing-rows", "--fill", "holiday=0", "--fill", "price=previous"]
    assert run(["forecast", model, "--input", str(tmp_path / "sales.csv"), *own]) == 0
    forecasts = capsys.readouterr().out
    rows = list(csv.DictReader(forecasts.splitlines()))
    assert [rows[0]["date"], rows[-1]["date"]] == ["2021-04-01", "2021-04-07"]
    # The joined file of the run has the same rows, without gaps.
    assert run(["forecast", model, "--input", str(folder / "data" / "series.csv")]) == 0
    assert capsys.readouterr().out == forecasts
    lines = (folder / "data" / "series.csv").read_text().splitlines()
    cheaper = [*lines[:-7], *(line.replace(",99,", ",79,") for line in lines[-7:])]
    (tmp_path / "cheaper.csv").write_text("\n".join(cheaper))
    assert run(["forecast", model, "--input", str(tmp_path / "cheaper.csv")]) == 0
    assert capsys.readouterr().out != forecasts


@pytest.mark.slow
def test_program_trains_on_a_long_file_of_two_series(tmp_path, capsys):
    rows = ["id,t,x"]
    for name, level in (("north", 1), ("south", 1000)):
        rows += [f"{name},{time},{level * (2 + np.sin(time / 2)):.4f}" for time in range(80)]
    (tmp_path / "long.csv").write_text("\n".join(rows) + "\n")
    columns = "--time-column t --series-column id --targets x --season 12 --horizon 4".split()
    run = tmp_path / "run"
    arguments = ["--data", tmp_path / "long.csv", "--run-dir", run, *columns, *SMALL]
    assert train(*arguments, "--dry-run") == 0
    output = capsys.readouterr().out
    assert "2 series of 80 rows, 0 to 79" in output and "Dry run: " in output
    assert not (run / "model.keras").exists() and not (run / "state").exists()
    assert train(*arguments) == 0
    assert (run / "forecast.png").exists() and (run / "forecast-2.png").exists()
    assert RunDirectory(run).series.series_column == "id"
    with np.load(run / "test.npz") as test:
        assert test["series"].shape == (2, 80, 1) and test["median"].shape == (4, 4, 1)
        assert test["median"][2:].min() > 100 * test["median"][:2].max()


def test_results_contain_the_scores_of_each_series():
    """The mean absolute error of all series is the mean of those of the series."""
    series = [hours(200, "north"), hours(150, "south")]
    settings = settings_of(horizon=4, origins=2, season=12, targets=["x"])
    random = np.random.default_rng(0)
    shape = (4, 4, 1, len(forecast.LEVELS))
    results = {
        "quantiles": random.normal(150, 20, shape).astype("float32"),
        "paths": random.normal(150, 20, (4, 5, 4, 1)).astype("float32"),
    }
    found = forecast._scores_of_series(settings, series, results, [24])
    assert list(found) == ["north", "south"]
    scores = forecast.score_forecasts(series, results, ["x"], 2, 12, forecast.LEVELS, [24])
    overall = scores["x"]
    for name in ("mase", "mase_naive_24", "mean_absolute_error", "coverage"):
        mean = np.mean([scores["x"][name] for scores in found.values()])
        assert overall[name] == pytest.approx(mean, rel=1e-5)
