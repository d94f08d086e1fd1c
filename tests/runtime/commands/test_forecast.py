import pytest
from keras_attn_runtime.commands.main import main

from tests.runtime.fake_forecaster import write_forecaster

ROWS = "day,a,b\n2024-01-01,1,2\n2024-01-02,3,4\n2024-01-03,3,4\n"


@pytest.fixture
def model(tmp_path):
    return str(write_forecaster(tmp_path / "model.onnx", window=2, time_column="day"))


def test_forecast_reads_and_writes_csv(model, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("\ufeff" + ROWS, encoding="utf-8")
    arguments = ["forecast", model, "--input", str(source), "--output", str(target), "--seed", "7"]
    assert main([*arguments, "--threads", "1"]) == 0
    lines = target.read_text().splitlines()
    assert lines[0].startswith("day,a_mean,a_q0.1")
    assert lines[1] == "2024-01-04,3,2,3,10,4,3,4,11"
    assert len(lines) == 4


def test_forecast_of_constant_series_works(model, tmp_path, capsys):
    source = tmp_path / "in.csv"
    source.write_text("day,a,b\n1,5,5\n2,5,5\n3,5,5\n")
    assert main(["forecast", model, "--input", str(source)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("4,5,4,5,5")


@pytest.mark.parametrize(
    "text, message",
    [
        (ROWS.replace("a,b", "a,c"), "Expected the columns ['b']"),
        (ROWS.replace("02,3,4", "02,3,four"), "column 'b', line 3. Received: 'four'"),
        (ROWS.replace("2024-01-03", "2024-01-05"), "Expected the time 2024-01-03"),
        ("day,a,b\n2024-01-01,1,2\n", "window=2"),
    ],
)
def test_forecast_of_a_wrong_file_prints_one_line(model, tmp_path, capsys, text, message):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text(text)
    assert main(["forecast", model, "--input", str(source), "--output", str(target)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line
    assert not target.exists()


def test_forecast_of_missing_files_prints_one_line(model, tmp_path, capsys):
    assert main(["forecast", model, "--input", str(tmp_path / "none.csv")]) == 1
    assert main(["forecast", str(tmp_path / "none.onnx"), "--input", "-"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
