import io
import json

import numpy as np
import pytest
from keras_attn_runtime._file_format import SeriesSettings
from keras_attn_runtime._series.series_csv import CsvOptions, read_series, write_forecasts

from tests.runtime.fake_forecaster import settings


def settings_of(**arguments):
    metadata = {"keras_attn.format": "2", "keras_attn.settings": json.dumps(settings(**arguments))}
    return SeriesSettings.from_metadata(metadata)


PLAIN = settings_of(window=2)
COVARIATES = settings_of(window=2, targets=("a",), past=("c", "d"), future=("d",))
LONGER = settings_of(window=4, targets=("a",), future=("d",))
CALENDAR = settings_of(
    window=2,
    targets=("a",),
    past=("week_cos1", "c"),
    future=("week_cos1",),
    calendar_columns=["week_cos1"],
)
DATES = """date,a,b
2024-02-27,1,10
2024-02-28,2,
2024-02-29,3,30
"""
FUTURE = """a,c,d
0,0,0
1,2,3
4,5,6
,,7
,,8
,,9
"""
SHOPS = "shop,a,b\nx,1,2\ny,5,6\nx,3,4\ny,7,8\n"


GAPS = "t,a,c,d\n1,1,2,3\n2,4,5,6\n4,9,,8\n5,,,1\n6,,,\n7,,,2\n"  # without t=3


def read(text, settings=PLAIN, time=None, series=None, **options):
    return read_series(io.StringIO(text), settings, CsvOptions(time, series, **options))


def test_last_rows_are_the_window_and_empty_cells_are_missing():
    (series,) = read(DATES, time="date")
    np.testing.assert_array_equal(series.arrays["past_targets"], [[2, np.nan], [3, 30]])
    assert [str(time) for time in series.times] == ["2024-03-01", "2024-03-02", "2024-03-03"]


def test_forecasts_of_month_ends_are_for_month_ends():
    text = "date,a,b\n2023-09-30,1,2\n2023-10-31,3,4\n2023-11-30,5,6\n"
    (series,) = read(text, time="date")
    assert [str(time) for time in series.times] == ["2023-12-31", "2024-01-31", "2024-02-29"]


def test_all_rows_are_the_past_of_a_model_with_any_window():
    (series,) = read(DATES, settings_of())
    assert len(series.arrays["past_targets"]) == 3
    assert list(series.times) == [1, 2, 3]


def test_rows_of_the_future_have_the_future_covariates():
    (series,) = read(FUTURE, COVARIATES)
    np.testing.assert_array_equal(series.arrays["past_targets"], [[1], [4]])
    np.testing.assert_array_equal(series.arrays["past_covariates"], [[2, 3], [5, 6]])
    np.testing.assert_array_equal(series.arrays["future_covariates"], [[7], [8], [9]])


def test_calendar_columns_are_computed_from_the_times():
    rows = "date,a,c\n2024-01-06,1,5\n2024-01-07,2,6\n2024-01-08,3,7\n"
    (series,) = read(rows, CALENDAR, time="date")
    week = np.cos(2 * np.pi * np.array([6, 0, 1, 2, 3]) / 7)  # 2024-01-07 is a Sunday
    past, future = series.arrays["past_covariates"], series.arrays["future_covariates"]
    np.testing.assert_allclose(past, np.stack([week[:2], [6, 7]], axis=1), atol=1e-6)
    np.testing.assert_allclose(future, week[2:, None], atol=1e-6)
    assert [str(time) for time in series.times] == ["2024-01-09", "2024-01-10", "2024-01-11"]
    # Columns with these names in the file are not read.
    (again,) = read(rows.replace("date,a,c", "week_cos1,a,c"), CALENDAR, time="week_cos1")
    np.testing.assert_array_equal(again.arrays["future_covariates"], future)
    with pytest.raises(ValueError, match="time column, from which .*week_cos1.*--time-column"):
        read(rows, CALENDAR)
    with pytest.raises(ValueError, match="Expected dates, from which .*week_cos1"):
        read("date,a,c\n1,1,5\n2,2,6\n", CALENDAR, time="date")
    with pytest.raises(ValueError, match="Expected --fill for covariates of the model, \\['c'\\]"):
        read(rows, CALENDAR, time="date", fills={"week_cos1": 0.0})


def test_series_are_separated_by_their_names():
    first, second = read(SHOPS, series="shop")
    assert (first.name, second.name) == ("x", "y")
    np.testing.assert_array_equal(first.arrays["past_targets"], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(second.arrays["past_targets"], [[5, 6], [7, 8]])


def test_inserted_rows_are_missing_targets_and_filled_covariates():
    options = {"insert_missing_rows": True, "fills": {"c": "previous", "d": 0.0}}
    (series,) = read(GAPS, COVARIATES, time="t", **options)
    np.testing.assert_array_equal(series.arrays["past_targets"], [[np.nan], [9]])  # t = 3, 4
    np.testing.assert_array_equal(series.arrays["past_covariates"], [[5, 0], [5, 8]])
    np.testing.assert_array_equal(series.arrays["future_covariates"], [[1], [0], [2]])
    assert list(series.times) == [5, 6, 7]


def test_the_future_is_not_filled_with_previous_values():
    options = {"insert_missing_rows": True, "fills": {"c": 0.0, "d": "previous"}}
    with pytest.raises(ValueError, match=r"'d', line 6 \(6\). Received: an empty cell in the fut"):
        read(GAPS, COVARIATES, time="t", **options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "time 3 after 2. Received: 4 in line 4, the first of 1 gaps with 1 missing rows"),
        ({"fills": {"a": 0.0}}, r"covariates of the model, \['c', 'd'\]. Received: a"),
        ({"insert_missing_rows": True}, "'c', the inserted row 3. .* --fill c=0 or --fill c=prev"),
    ],
)
def test_gaps_raise_an_error_that_names_the_option(options, message):
    with pytest.raises(ValueError, match=message):
        read(GAPS, COVARIATES, time="t", **options)


@pytest.mark.parametrize(
    "text, arguments, message",
    [
        ("a,c\n1,2\n", {}, r"columns \['b'\] in the file. Received: \['a', 'c'\]"),
        ("a,b\n", {}, "Expected rows"),
        ("", {}, r"columns \['a', 'b'\]"),
        ("a,b\n1,2\n", {}, "at least window=2 rows of the past. Received: 1 rows"),
        ("a,b\n1,2\n3,x\n", {}, "number in column 'b', line 3. Received: 'x'"),
        ("a,b\n1,2\n3,inf\n", {}, "Received: 'inf'"),
        ("a,b\n1,2\n3,\n,\n,\n", {}, "at least one value of the targets"),
        ("a,b\n1,2\n3\n", {}, "Expected 2 cells in each line.* Received: 1 cells in line 3"),
        (DATES.replace("02-28", "02-26"), {"time": "date"}, "increasing times"),
        (DATES.replace("02-29", "03-02"), {"time": "date"}, "2024-02-29 after 2024-02-28.*line 4"),
        (
            DATES.replace("2024-02-29", "May"),
            {"time": "date"},
            "'date', line 4. Received: 'May'",
        ),
        (DATES, {"time": "day"}, r"columns \['day'\]"),
        (FUTURE, {"settings": LONGER}, "horizon=3 rows with the future covariates. Received: 6"),
        (
            FUTURE.replace(",,8", "1,,8"),
            {"settings": COVARIATES},
            "a=1 in line 6.* 3 rows .* with d",
        ),
        (FUTURE.replace(",,8", ",,"), {"settings": COVARIATES}, "column 'd', line 6.*empty cell"),
        (FUTURE.replace("4,5,6", "4,,6"), {"settings": COVARIATES}, "column 'c', line 4"),
    ],
)
def test_wrong_file_raises_an_error(text, arguments, message):
    with pytest.raises(ValueError, match=message):
        read(text, **arguments)


def test_forecasts_are_written_by_time_and_target():
    series = read(DATES, time="date")
    results = {
        "mean": np.arange(6.0).reshape(1, 3, 2),
        "quantiles": np.arange(18.0).reshape(1, 3, 2, 3),
    }
    file = io.StringIO()
    write_forecasts(file, series, results, PLAIN, CsvOptions("date"))
    lines = file.getvalue().splitlines()
    assert lines[0] == "date,a_mean,a_q0.1,a_q0.5,a_q0.9,b_mean,b_q0.1,b_q0.5,b_q0.9"
    assert lines[1:3] == ["2024-03-01,0,0,1,2,1,3,4,5", "2024-03-02,2,6,7,8,3,9,10,11"]


def test_infinite_forecasts_raise_an_error_and_write_nothing():
    series = read(SHOPS, series="shop")
    results = {"mean": np.zeros((2, 3, 2)), "quantiles": np.zeros((2, 3, 2, 3))}
    results["quantiles"][1, 2, 1, 0] = np.inf
    file = io.StringIO()
    message = "Received: b=inf at 3 of the series 'y'. The largest value of the past is 8"
    with pytest.raises(ValueError, match=message):
        write_forecasts(file, series, results, PLAIN, CsvOptions(None, "shop"))
    assert file.getvalue() == ""


def test_forecasts_of_several_series_have_a_column_of_names():
    series = read(SHOPS, series="shop")
    results = {"mean": np.zeros((2, 3, 2)), "quantiles": np.zeros((2, 3, 2, 3))}
    file = io.StringIO()
    write_forecasts(file, series, results, PLAIN, CsvOptions(None, "shop"))
    rows = [line.split(",")[:2] for line in file.getvalue().splitlines()]
    assert rows[0] == ["shop", "step"] and rows[1] == ["x", "1"] and rows[6] == ["y", "3"]
