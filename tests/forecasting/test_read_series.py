import datetime

import numpy as np
import pytest

from keras_attn.forecasting import read_series, write_series

CSV = """date,temperature,pressure
2024-02-28,11,7679
2024-03-02,12,
2024-02-29,13,1012
"""
LONG = """shop,day,sold,price
north,2024-01-01,5,9
south,2024-01-03,50,8
north,2024-01-02,6,9
south,2024-01-04,,8
south,2024-01-05,70,7
north,2024-01-03,,4
"""


def read(tmp_path, text=CSV, targets=("temperature", "pressure"), **arguments):
    (tmp_path / "a.csv").write_text(text)
    (series,) = read_series(tmp_path / "a.csv", targets, "date", **arguments)
    return series


def test_read_series_sorts_rows_and_masks_invalid_or_absent_values(tmp_path, capsys):
    series = read(
        tmp_path, valid_ranges={"pressure": (950.0, 1050.0)}, insert_missing_rows=True, horizon=2
    )
    first = datetime.date(2024, 2, 28)
    assert series.times == [first + datetime.timedelta(day) for day in range(6)]
    nan = np.nan
    expected = [[11, nan], [13, 1012], [nan, nan], [12, nan]]
    np.testing.assert_array_equal(series.targets, np.array(expected, "float32"))
    assert series.covariates.shape == (6, 0) and len(series) == 4
    assert "pressure: 1 values outside" in capsys.readouterr().out


def test_read_series_separates_the_series_of_a_long_file(tmp_path):
    (tmp_path / "a.csv").write_text(LONG)
    arguments = {"known_covariates": ["price"]}
    north, south = read_series(tmp_path / "a.csv", ["sold"], "day", "shop", **arguments)
    assert (north.name, south.name) == ("north", "south")
    np.testing.assert_array_equal(north.targets, [[5], [6]])
    np.testing.assert_array_equal(north.covariates, [[9], [9], [4]])
    np.testing.assert_array_equal(south.targets, [[50], [np.nan], [70]])
    assert [str(time) for time in south.times] == ["2024-01-03", "2024-01-04", "2024-01-05"]
    with pytest.raises(ValueError, match=r"2024-01-03 in the lines 3 and 7.*use series_column"):
        read_series(tmp_path / "a.csv", ["sold"], "day")
    (tmp_path / "a.csv").write_text(LONG + "south,2024-01-04,9,9\n")
    with pytest.raises(
        ValueError, match="2024-01-04 of the series 'south' in the lines 5 and 8. Keep one"
    ):
        read_series(tmp_path / "a.csv", ["sold"], "day", "shop")


def test_read_series_refuses_missing_days(tmp_path):
    with pytest.raises(ValueError, match="time 2024-03-01 after 2024-02-29.*insert-missing-rows"):
        read(tmp_path)


def test_read_series_continues_months(tmp_path):
    text = "date,sales\n2023-11-30,5\n2023-12-31,6\n2024-02-29,7\n2024-03-31,8\n"
    series = read(tmp_path, text, ["sales"], insert_missing_rows=True, horizon=2)
    assert [str(time) for time in series.times[2:]] == [
        *("2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31")
    ]
    np.testing.assert_array_equal(series.targets, [[5], [6], [np.nan], [7], [8]])


def test_rows_without_targets_at_the_end_are_the_future(tmp_path):
    sales = "date,sales,price,holiday\n1,5,9,1\n2,,9,\n3,7,8,\n4,,7,\n5,,6,1\n6,,5,\n"
    arguments = {
        "targets": ["sales"],
        "known_covariates": ["price", "holiday"],
        "fills": {"holiday": 0.0},
    }
    series = read(tmp_path, sales, horizon=2, **arguments)
    assert series.times == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(series.targets, [[5], [np.nan], [7]])
    np.testing.assert_array_equal(series.covariates, [[9, 1], [9, 0], [8, 0], [7, 0], [6, 1]])
    assert read(tmp_path, sales, **arguments).times == [1, 2, 3, 4, 5, 6]
    without = read(tmp_path, sales.split("4,")[0], horizon=2, **arguments)
    assert without.times == [1, 2, 3]  # evaluation needs no future
    message = r"'price', line 6 \(5\). Received: an empty cell in the future"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, sales.replace("5,,6", "5,,"), horizon=2, **arguments)
    with pytest.raises(ValueError, match="'price', line 3 .*--fill price=previous"):
        read(tmp_path, sales.replace("2,,9", "2,,"), horizon=2, **arguments)


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
def test_wrong_files_raise_an_error(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"known_covariates": ["pressure"]}, "each column once.*'pressure', 'date'"),
        ({"series_column": "date"}, "each column once"),
        ({"fills": {"pressure": 0.0}}, r"Expected fills of the columns \[\]. Received: pressure"),
        ({"valid_ranges": {"wind": (0, 1)}}, "Expected valid_ranges of the columns .*: wind"),
    ],
)
def test_wrong_columns_raise_an_error(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, **arguments)


def test_rows_of_later_files_replace_rows_only_if_asked(tmp_path):
    for name, rows in (("a", "1,5\n2,6\n3,7\n"), ("b", "3,8\n4,9\n")):
        (tmp_path / f"{name}.csv").write_text("t,x\n" + rows)
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(ValueError, match="3 in line 4 of .*a.csv and line 2 of .*replace_rows"):
        read_series(paths, ["x"], "t")
    (series,) = read_series(paths, ["x"], "t", replace_rows=True)
    assert series.targets.tolist() == [[5], [6], [8], [9]]
    (tmp_path / "b.csv").write_text("t,x\n2024-01-01,8\n")
    with pytest.raises(ValueError, match="times of the same kind in all files"):
        read_series(paths, ["x"], "t")


def test_written_series_are_read_again(tmp_path):
    text = "\ufeffs;t;x\r\na;2024-01;1,5\r\na;2024-02;\r\na;2024-03;2\r\nb;2024-01;0,1\r\n"
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    series = read_series(tmp_path / "a.csv", ["x"], "t", "s", delimiter=";", decimal=",")
    np.testing.assert_array_equal(series[0].targets, [[1.5], [np.nan], [2]])
    write_series(tmp_path / "b.csv", series, ["x"], "t", "s")
    again = read_series(tmp_path / "b.csv", ["x"], "t", "s")
    assert [(each.name, each.times) for each in again] == [
        (each.name, each.times) for each in series
    ]
    np.testing.assert_array_equal(again[0].targets, series[0].targets)
    assert str(again[0].times[0]) == "2024-01"
    with pytest.raises(ValueError, match="Expected series_column for a file of 2 series"):
        write_series(tmp_path / "b.csv", series, ["x"], "t")
