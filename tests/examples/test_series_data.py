import datetime

import numpy as np
import pytest
import series_data

CSV = """date,temperature,pressure
2024-02-28,11,7679
2024-03-02,12,
2024-02-29,13,1012
"""


def test_generated_series_have_a_season_and_different_levels():
    series = series_data.generated_series(number=20, length=120, season=12, seed=1)
    assert series.shape == (20, 120, 1) and np.isfinite(series).all()
    np.testing.assert_array_equal(series, series_data.generated_series(20, 120, 12, seed=1))
    level = np.abs(series).mean(axis=1, keepdims=True)
    assert level.max() > 20 * level.min()
    scaled = series / level
    differences = [np.abs(scaled[:, lag:] - scaled[:, :-lag]).mean() for lag in (6, 12)]
    assert differences[1] < 0.7 * differences[0]


def read(tmp_path, text=CSV, targets=("temperature", "pressure"), **arguments):
    (tmp_path / "a.csv").write_text(text)
    return series_data.read_series([tmp_path / "a.csv"], "date", targets, **arguments)


def test_csv_is_sorted_and_invalid_or_absent_values_are_missing(tmp_path, capsys):
    data = read(
        tmp_path, valid_ranges={"pressure": (950.0, 1050.0)}, insert_missing_rows=True, horizon=2
    )
    first = datetime.date(2024, 2, 28)
    assert data.times == [first + datetime.timedelta(day) for day in range(6)]
    nan = np.nan
    expected = [[11, nan], [13, 1012], [nan, nan], [12, nan]]
    np.testing.assert_array_equal(data.targets, np.array(expected, "float32"))
    assert data.known.shape == (6, 0)
    assert "pressure: 1 values outside" in capsys.readouterr().out


def test_missing_days_are_an_error_that_names_the_option(tmp_path):
    with pytest.raises(ValueError, match="time 2024-03-01 after 2024-02-29.*insert-missing-rows"):
        read(tmp_path)


def test_months_have_equal_steps_and_the_future_continues_them(tmp_path):
    text = "date,sales\n2023-11-30,5\n2023-12-31,6\n2024-02-29,7\n2024-03-31,8\n"
    data = read(tmp_path, text, ["sales"], insert_missing_rows=True, horizon=2)
    assert [str(time) for time in data.times[2:]] == [
        *("2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31")
    ]
    np.testing.assert_array_equal(data.targets, [[5], [6], [np.nan], [7], [8]])


def test_rows_without_targets_at_the_end_are_the_future(tmp_path):
    sales = "date,sales,price,holiday\n1,5,9,1\n2,,9,\n3,7,8,\n4,,7,\n5,,6,1\n6,,5,\n"
    arguments = {"targets": ["sales"], "known": ["price", "holiday"], "fills": {"holiday": 0.0}}
    data = read(tmp_path, sales, horizon=2, **arguments)
    assert data.times == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(data.targets, [[5], [np.nan], [7]])
    np.testing.assert_array_equal(data.known, [[9, 1], [9, 0], [8, 0], [7, 0], [6, 1]])
    without = read(tmp_path, sales.split("4,")[0], horizon=2, **arguments)
    assert without.times == [1, 2, 3]  # evaluation needs no future
    message = r"'price', line 6 \(5\). Received: an empty cell in the future"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, sales.replace("5,,6", "5,,"), horizon=2, **arguments)
    with pytest.raises(ValueError, match="'price', line 3 .*--fill price=previous"):
        read(tmp_path, sales.replace("2,,9", "2,,"), horizon=2, **arguments)


def test_covariates_are_scaled_to_their_range():
    known = np.array([[79.0, 0, 5], [99.0, 1, 5], [89.0, 0, 5]])
    shift, scale = series_data.covariate_scaling(known)
    scaled = (known - shift) / scale
    np.testing.assert_array_equal(scaled, [[-1, -1, 0], [1, 1, 0], [0, -1, 0]])


@pytest.mark.parametrize(
    "text, message",
    [
        (CSV.replace(",1012", ",x"), "column 'pressure', line 4. Received: 'x'"),
        ("date,temperature,pressure\n2024-01-01,,\n", "Received: empty cells only"),
        (CSV + "7,1,1\n", "times of the same kind.* '7' in line 5"),
        (CSV + "2024-02-29,1,1\n", "Received: 2024-02-29 in the lines 4 and 5.*several series"),
        (CSV.replace("pressure", "wind"), r"columns \['pressure'\]"),
    ],
)
def test_wrong_csv_raises_an_error(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_rows_of_later_files_replace_rows_only_if_asked(tmp_path):
    for name, rows in (("a", "1,5\n2,6\n3,7\n"), ("b", "3,8\n4,9\n")):
        (tmp_path / f"{name}.csv").write_text("t,x\n" + rows)
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(ValueError, match="3 in line 4 of .*a.csv and line 2 of .*--replace-rows"):
        series_data.read_series(paths, "t", ["x"])
    data = series_data.read_series(paths, "t", ["x"], replace_rows=True)
    assert data.targets.tolist() == [[5], [6], [8], [9]]
    (tmp_path / "b.csv").write_text("t,x\n2024-01-01,8\n")
    with pytest.raises(ValueError, match="times of the same kind in all files"):
        series_data.read_series(paths, "t", ["x"])


def test_files_of_european_spreadsheets_are_read(tmp_path):
    text = "\ufefft;x\r\n2024-01;1,5\r\n2024-02;\r\n2024-03;2\r\n"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    data = series_data.read_series(
        [tmp_path / "a.csv"], "t", ["x"], horizon=1, delimiter=";", decimal=","
    )
    np.testing.assert_array_equal(data.targets, [[1.5], [np.nan], [2]])
    assert [str(time) for time in data.times] == ["2024-01", "2024-02", "2024-03", "2024-04"]
    names, _ = series_data.calendar_covariates(data.times)
    series_data.write_csv(tmp_path / "b.csv", ["t", "x"], data.times[:3], data.targets)
    again = series_data.read_series([tmp_path / "b.csv"], "t", ["x"])
    np.testing.assert_array_equal(again.targets, data.targets)
    assert again.times == data.times[:3] and len(names) == 4


def test_calendar_covariates_repeat_each_year():
    days = [datetime.date(year, 7, 1) for year in (2021, 2022)] + [datetime.date(2022, 1, 1)]
    names, values = series_data.calendar_covariates(days)
    assert names == ["year_sin1", "year_cos1", "year_sin2", "year_cos2"]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_allclose(values[2], [0, 1, 0, 1], atol=1e-6)
    names, values = series_data.calendar_covariates([1, 2, 3])
    assert names == [] and values.shape == (3, 0)
