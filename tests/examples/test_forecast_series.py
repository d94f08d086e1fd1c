"""A short run of the example, copied out of the checkout, and a forecast with its files."""

import pytest
from keras_attn_runtime._commands.main import main

from keras_attn.training import RunDirectory
from tests.examples.scripts import EXAMPLES, python

SHORTER = {
    "EPOCHS, BATCH_SIZE, UNITS = 10, 128, 32": "EPOCHS, BATCH_SIZE, UNITS = 1, 64, 4",
    "series = generate_series()": "series = generate_series(number=3, length=130)",
    "num_paths=200": "num_paths=5",
}


@pytest.mark.slow
def test_forecast_series_writes_files_that_the_runtime_forecasts(tmp_path, capsys):
    program = (EXAMPLES / "forecast_series.py").read_text()
    for text, shorter in SHORTER.items():
        assert text in program
        program = program.replace(text, shorter)
    (tmp_path / "example.py").write_text(program)
    output = python(tmp_path, "example.py").stdout
    assert "season 12, horizon 12, window 31, lags [12, 24]" in output and "mase " in output
    run = tmp_path / "build" / "forecast"
    assert (run / "forecast.png").stat().st_size > 10_000
    assert RunDirectory(run).series.calendar_columns[0] == "year_sin1"
    assert RunDirectory(run).series.series_column == "series"
    command = ["forecast", str(run / "forecaster.onnx"), "--input", str(run / "series.csv")]
    assert main(command) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 1 + 3 * 12 and rows[1].startswith("1,2020-11-01,")
