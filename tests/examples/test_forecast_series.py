"""A short run of the example on a CSV file, and what the runtime makes of its files."""

import csv
import datetime
import json

import numpy as np
import pytest
from keras_attn_runtime.commands.main import main

from tests.examples.scripts import EXAMPLES, python


@pytest.mark.slow
def test_forecast_series_writes_files_that_the_runtime_forecasts(tmp_path):
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
