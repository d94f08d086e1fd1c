import os

import pytest
from keras_attn_runtime._commands.main import main

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


def test_forecast_inserts_missing_rows_if_asked(model, tmp_path, capsys):
    source = tmp_path / "in.csv"
    source.write_text("day,a,b\n1,1,2\n2,3,4\n3,3,4\n5,7,8\n")
    assert main(["forecast", model, "--input", str(source)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "Expected the time 4 after 3. Received: 5 in line 5" in line
    assert "--insert-missing-rows" in line
    assert main(["forecast", model, "--input", str(source), "--insert-missing-rows"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("6,7,6,7,7")


def test_forecast_reads_covariates_of_the_future(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    write_forecaster(
        path, window=2, targets=("a",), past=("sale",), future=("sale",), time_column="day"
    )
    source = tmp_path / "in.csv"
    command = ["forecast", str(path), "--input", str(source)]
    source.write_text("day,a,sale\n1,5,\n2,6,1\n3,,\n4,,1\n5,,\n")
    assert main(command) == 1
    assert "'sale', line 2 (1). Received: an empty cell. Fill in" in capsys.readouterr().err
    assert main([*command, "--fill", "sale=previous"]) == 1
    assert "'sale', line 2 (1)" in capsys.readouterr().err
    source.write_text("day,a,sale\n1,5,1\n2,6,\n3,,\n4,,1\n5,,\n")
    assert main([*command, "--fill", "sale=previous"]) == 1
    assert "'sale', line 4 (3). Received: an empty cell in the future" in capsys.readouterr().err
    assert main([*command, "--fill", "sale=0"]) == 0
    assert [line[:3] for line in capsys.readouterr().out.splitlines()[1:]] == ["3,6", "4,6", "5,6"]


@pytest.mark.parametrize(
    "fill", ["sale", "=0", "sale=x", "sale=nan", "sale=inf", "sale=1e39", "sale=-4e38"]
)
def test_wrong_fill_is_a_wrong_command_line(model, capsys, fill):
    with pytest.raises(SystemExit) as error:
        main(["forecast", model, "--fill", fill])
    assert error.value.code == 2
    assert "NAME=NUMBER or NAME=previous" in capsys.readouterr().err


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


def test_output_is_neither_the_input_nor_the_model(model, tmp_path, capsys, monkeypatch):
    source, link = tmp_path / "in.csv", tmp_path / "link.csv"
    source.write_text(ROWS)
    link.symlink_to(source)
    monkeypatch.chdir(tmp_path)
    command = ["forecast", model, "--input", str(source), "--output"]
    before = (tmp_path / "model.onnx").read_bytes()
    for output in ("in.csv", "./../" + tmp_path.name + "/in.csv", str(link), "model.onnx"):
        assert main([*command, output]) == 1
        assert "Expected an output that is not read" in capsys.readouterr().err
    assert source.read_text() == ROWS and (tmp_path / "model.onnx").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 3


def test_full_disk_leaves_the_previous_forecast(model, tmp_path, capsys):
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("s,day,a,b\n" + "".join(f"{s},{d},1,2\n" for s in "uvwxyz" for d in (1, 2)))
    target.write_text("previous")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
    try:
        command = ["forecast", model, "--input", str(source), "--series-column", "s"]
        assert main([*command, "--output", str(target)]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "too large" in capsys.readouterr().err
    assert target.read_text() == "previous" and len(list(tmp_path.iterdir())) == 3


def test_devices_and_pipes_are_written_directly(model, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(ROWS)
    assert main(["forecast", model, "--input", str(source), "--output", os.devnull]) == 0
    reading, writing = os.pipe()
    path = f"/dev/fd/{writing}"
    if not os.path.exists(path):
        pytest.skip("needs /dev/fd")
    assert main(["forecast", model, "--input", str(source), "--output", path]) == 0
    os.close(writing)
    with os.fdopen(reading) as file:
        assert file.readline().startswith("day,a_mean")


def test_forecast_reads_files_of_european_spreadsheets(model, tmp_path, capsys):
    source = tmp_path / "in.csv"
    command = ["forecast", model, "--input", str(source)]
    text = "day;a;b\r\n2024-01-01;1,5;2\r\n2024-01-02;3,5;4\r\n"
    for encoding, delimiter, name in (("utf-8-sig", ";", "semicolon"), ("utf-16", "\t", "tab")):
        source.write_bytes(text.replace(";", delimiter).encode(encoding))
        assert main(command) == 1
        assert f"Use --delimiter {name}" in capsys.readouterr().err
        assert main([*command, "--delimiter", name]) == 1
        assert "Use --decimal comma" in capsys.readouterr().err
        assert main([*command, "--delimiter", name, "--decimal", "comma"]) == 0
        assert capsys.readouterr().out.splitlines()[1].startswith("2024-01-03,3.5,2.5")


def test_forecast_of_missing_files_prints_one_line(model, tmp_path, capsys):
    assert main(["forecast", model, "--input", str(tmp_path / "none.csv")]) == 1
    assert main(["forecast", str(tmp_path / "none.onnx"), "--input", "-"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("missing", [True, False])
def test_series_that_end_at_different_times_are_named(model, tmp_path, capsys, missing):
    rows = [f"{name},2024-01-0{day},1,2" for name in "uv" for day in (1, 2, 3)]
    source = tmp_path / "in.csv"
    source.write_text("\n".join(["s,day,a,b", *rows[: -1 if missing else None]]))
    assert main(["forecast", model, "--input", str(source), "--series-column", "s"]) == 0
    expected = (
        "warning: The forecasts start at different times, from 2024-01-03 (series 'v') to "
        "2024-01-04 (series 'u'). Add missing rows at the end.\n"
    )
    assert capsys.readouterr().err == (expected if missing else "")
