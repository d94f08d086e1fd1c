"""A short run of the example on a CSV file, and what the runtime makes of its files."""

import csv
import datetime
import json

import numpy as np
import pytest
from keras_attn_runtime._commands.main import main
from series_options import parse_arguments

from tests.examples.sales_file import write_sales
from tests.examples.scripts import EXAMPLES, python


@pytest.mark.slow
def test_forecast_series_writes_files_that_the_runtime_forecasts(tmp_path, capsys):
    start = datetime.date(2021, 1, 1)
    values = 20 + 5 * np.sin(2 * np.pi * np.arange(60) / 7) + 0.1 * np.arange(60)
    rows = [f"{start + datetime.timedelta(day)},{each:.3f},7" for day, each in enumerate(values)]
    (tmp_path / "in.csv").write_text("\n".join(["date,t,constant", *rows]) + "\n")
    arguments = "--season 7 --horizon 3 --window 10 --lags 7 --origins 2 --units 4 --epochs 1"
    python(
        tmp_path,
        EXAMPLES / "forecast_series.py",
        *("--csv", "in.csv", "--targets", "t", "--out", "run", "--paths", 5),
        *arguments.split(),
    )
    report = json.loads((tmp_path / "run" / "results.json").read_text())
    assert report["test_points"] == 6 and 0 <= report["targets"]["t"]["coverage_90"] <= 1
    # Values differ by the trend of a season from those of the season before.
    assert report["targets"]["t"]["mase_seasonal_naive"] == pytest.approx(1, abs=0.01)
    assert report["largest_onnx_difference"] <= 1e-4
    assert (tmp_path / "run" / "forecast.png").stat().st_size > 10_000

    model, source = tmp_path / "run" / "forecaster.onnx", tmp_path / "run" / "input.csv"
    target = tmp_path / "out.csv"
    assert main(["forecast", str(model), "--input", str(source), "--output", str(target)]) == 0
    with open(target, newline="") as file:
        written = list(csv.DictReader(file))
    dates = [start + datetime.timedelta(day) for day in (57, 58, 59)]
    assert [row["date"] for row in written] == [str(date) for date in dates]
    assert all(float(row["t_q0.05"]) <= float(row["t_q0.95"]) for row in written)
    assert main(["forecast", str(model), "--input", str(source.with_name("future.csv"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:10] for line in lines[1:]] == ["2021-03-02", "2021-03-03", "2021-03-04"]


@pytest.mark.slow
def test_forecasts_depend_on_known_covariates(tmp_path, capsys):
    write_sales(tmp_path / "sales.csv", days=90, future=5, missing=(20, 21, 50))
    arguments = "--season 7 --horizon 4 --window 14 --lags 7 --origins 2 --units 4 --epochs 1"
    command = [
        *(EXAMPLES / "forecast_series.py", "--csv", "sales.csv", "--targets", "sales"),
        *("--known-covariates", "price", "holiday", "--out", "run", "--paths", 5),
        *arguments.split(),
    ]
    error = python(tmp_path, *command, "--fill", "holiday=0", status=1).stderr
    assert "Expected the time 2021-01-21 after 2021-01-20" in error
    assert "the first of 2 gaps with 3 missing rows. Use --insert-missing-rows" in error
    error = python(tmp_path, *command, "--insert-missing-rows", status=1).stderr
    assert "the inserted row 2021-01-21" in error and "--fill price=previous" in error
    fills = ("--fill", "holiday=0", "--fill", "price=previous")
    python(tmp_path, *command, "--insert-missing-rows", *fills)
    report = json.loads((tmp_path / "run" / "results.json").read_text())
    assert report["test_points"] == 8 and report["largest_onnx_difference"] <= 1e-4

    model, future = str(tmp_path / "run" / "forecaster.onnx"), tmp_path / "run" / "future.csv"
    lines = future.read_text().splitlines()
    assert lines[0].endswith("year_cos2,price,holiday") and len(lines) == 1 + 14 + 4

    def forecast(text):
        future.write_text(text)
        status = main(["forecast", model, "--input", str(future)])
        return status, capsys.readouterr()

    status, planned = forecast("\n".join(lines))
    assert status == 0 and planned.out.splitlines()[1].startswith("2021-04-01")
    cheaper = [*lines[:-4], *(line.replace(",99,", ",79,") for line in lines[-4:])]
    status, changed = forecast("\n".join(cheaper))
    assert status == 0 and changed.out != planned.out
    status, wrong = forecast("\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ","]))
    assert status == 1 and "'holiday', line 19 (2021-04-04). Received: an empty cell" in wrong.err
    status, wrong = forecast("\n".join(lines[:-4]))
    assert status == 1 and "Received: 14 rows" in wrong.err


@pytest.mark.parametrize(
    "options, message",
    [
        (["--known-covariates", "price"], "--known-covariates are columns of --csv FILE"),
        (["--csv", "a.csv", "--fill", "price=0"], "Expected --fill for known covariates"),
        (["--csv", "a.csv", "--valid-range", "price=0:1"], "Expected --valid-range for targets"),
        (["--csv", "a.csv", "--known-covariates", "value"], "Expected each column once"),
    ],
)
def test_wrong_options_stop_the_example(monkeypatch, capsys, options, message):
    monkeypatch.setattr("sys.argv", ["forecast_series.py", *options])
    with pytest.raises(SystemExit) as error:
        parse_arguments("", ["gaussian", "student_t"])
    assert message in f"{error.value}{capsys.readouterr().err}"
