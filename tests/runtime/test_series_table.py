"""Tables of CSV files: gaps in the times, and cells that are filled."""

import io

import numpy as np
import pytest
from keras_attn_runtime import read_series_tables

GAPS = "date,a,b\n2024-02-28,1,5\n2024-03-01,2,\n2024-03-02,,7\n2024-03-05,4,\n"
NAN = np.nan


def read(text=GAPS, columns=("a", "b"), time="date", series=None):
    return read_series_tables(io.StringIO(text), columns, time, series)


def test_missing_rows_are_inserted_with_empty_cells():
    (table,) = read()
    table = table.with_all_times(insert_missing=True)
    assert [str(time)[5:] for time in table.times] == [
        *("02-28", "02-29", "03-01", "03-02", "03-03", "03-04", "03-05")
    ]
    np.testing.assert_array_equal(table.column("a"), [1, NAN, 2, NAN, NAN, NAN, 4])
    assert list(table.lines) == [2, 0, 3, 4, 0, 0, 5]
    assert table.place(1) == "the inserted row 2024-02-29" and table.place(2) == "line 3"


def test_missing_rows_are_an_error_by_default():
    (table,) = read()
    message = "time 2024-02-29 after 2024-02-28.*2024-03-01 in line 3, the first of 2 gaps with 3 "
    with pytest.raises(ValueError, match=message + "missing rows. Use --insert-missing-rows"):
        table.with_all_times()


def test_months_are_inserted_as_months():
    (table,) = read("date,a\n2023-11-01,1\n2023-12-01,2\n2024-03-01,3\n2024-04-01,4\n", ["a"])
    table = table.with_all_times(insert_missing=True)
    assert [str(time)[:7] for time in table.times[2:4]] == ["2024-01", "2024-02"]


def test_month_ends_are_inserted_and_continued():
    (table,) = read("date,a\n2023-12-31,1\n2024-01-31,2\n2024-04-30,3\n2024-05-31,4\n", ["a"])
    with pytest.raises(ValueError, match="time 2024-02-29 after 2024-01-31.*2 missing rows"):
        table.with_all_times()
    table = table.with_all_times(insert_missing=True)
    assert [str(time)[2:] for time in table.times[1:5]] == [
        *("24-01-31", "24-02-29", "24-03-31", "24-04-30")
    ]
    np.testing.assert_array_equal(table.column("a"), [1, 2, NAN, NAN, 3, 4])
    assert [str(time)[5:] for time in table.later_times(3)] == ["06-30", "07-31", "08-31"]


def test_rows_are_removed_or_added_at_the_end():
    (table,) = read()
    table = table.with_all_times(insert_missing=True)
    longer = table.with_num_rows(9)
    assert [str(time)[5:] for time in longer.times[-2:]] == ["03-06", "03-07"]
    np.testing.assert_array_equal(longer.column("a")[6:], [4, NAN, NAN])
    shorter = longer.with_num_rows(2)
    assert [len(each) for each in (shorter.times, shorter.lines, shorter.values)] == [2, 2, 2]
    (table,) = read(time=None)
    assert table.with_num_rows(6).times is None


def test_billions_of_rows_are_not_inserted():
    (table,) = read("date,a\n1,1\n2,2\n9000000000,3\n", ["a"])
    with pytest.raises(ValueError, match="At most 1,000,000 rows"):
        table.with_all_times(insert_missing=True)


@pytest.mark.parametrize(
    "fill, num_future, expected",
    [
        (0.0, 0, [5, 0, 7, 0]),
        (0.0, 2, [5, 0, 7, 0]),
        ("previous", 0, [5, 5, 7, 7]),
        ("previous", 1, [5, 5, 7, NAN]),
        ("previous", 3, [5, NAN, 7, NAN]),
    ],
)
def test_empty_cells_are_filled(fill, num_future, expected):
    (table,) = read()
    filled = table.with_filled_cells({"b": fill, "other": 1.0}, num_future)
    np.testing.assert_array_equal(filled.column("b"), expected)
    np.testing.assert_array_equal(filled.column("a"), table.column("a"))
    np.testing.assert_array_equal(table.column("b"), [5, NAN, 7, NAN])  # not modified


def test_nothing_is_before_the_first_value():
    (table,) = read(GAPS.replace(",1,5", ",1,"))
    filled = table.with_filled_cells({"b": "previous"})
    np.testing.assert_array_equal(filled.column("b"), [NAN, NAN, 7, 7])


def test_empty_covariates_name_their_place_and_the_option():
    (table,) = read()
    with pytest.raises(ValueError, match=r"'b', line 3 \(2024-03-01\).*--fill b=previous"):
        table.require_numbers(["b"], first=0)
    with pytest.raises(ValueError, match="empty cell in the future. The future of a covariate"):
        table.require_numbers(["b"], first=2, num_future=1)


def test_series_have_their_own_times():
    text = "shop,date,a\nx,1,1\ny,1,5\nx,2,2\ny,3,6\nx,3,3\ny,4,6\n"
    first, second = read(text, ["a"], series="shop")
    assert first.with_all_times() is first
    with pytest.raises(ValueError, match="Received: 3 in line 5 of the series 'y'"):
        second.with_all_times()
    assert len(second.with_all_times(insert_missing=True).values) == 4


def test_numbers_that_float32_cannot_hold_raise_an_error():
    with pytest.raises(ValueError, match="column 'a', line 2. Received: '1e300'"):
        read("a\n1e300\n", ["a"], time=None)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["1", "2", "2"], "Received: 2 in line 7 of the series 'y' after 2. Sort"),
        (["1", "2", "3", "5", "4"], "Received: 4 in line 9 of the series 'y' after 5. Sort"),
        (["2024-01-01", "2024-01-02", "2024-01-01"], "in line 7 of the series 'y' after 2024-01-0"),
        (["5"], r"Received: \['5'\] of the series 'y'"),
    ],
)
def test_errors_of_times_name_the_series(times, message):
    first = ["2024-01-01", "2024-01-02", "2024-01-03"] if "-" in times[0] else ["1", "2", "3"]
    rows = [*(f"x,{time},1" for time in first), *(f"y,{time},1" for time in times)]
    text = "shop,t,a\n" + "\n".join(rows)
    with pytest.raises(ValueError, match=message):
        for table in read(text, ["a"], "t", "shop"):
            table.with_all_times()
            table.later_times(1)
