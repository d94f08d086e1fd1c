import datetime
import io

import numpy as np
import pytest
from keras_attn_runtime import compute_calendar, read_series_tables
from keras_attn_runtime._series.calendar_columns import NAME

from keras_attn_checks import calendar_columns as checks


@pytest.mark.parametrize(
    "period, time, position",
    [
        ("hour", datetime.datetime(2024, 5, 6, 7, 15), 0.25),
        ("day", datetime.datetime(2024, 5, 6, 18, 0), 0.75),
        ("day", datetime.date(2024, 5, 6), 0.0),
        ("week", datetime.date(2024, 1, 1), 0.0),  # a Monday
        ("week", datetime.datetime(2024, 1, 6, 12, 0), 5.5 / 7),
        ("month", datetime.date(2024, 2, 29), 28 / 29),
        ("year", datetime.date(2023, 12, 31), 364 / 365.25),
        ("year", datetime.datetime(2024, 1, 1, 6, 0), 0.25 / 365.25),
    ],
)
def test_columns_are_harmonics_of_the_position(period, time, position):
    names = [f"{period}_cos1", f"{period}_sin3"]
    expected = [[np.cos(2 * np.pi * position), np.sin(6 * np.pi * position)]]
    np.testing.assert_allclose(compute_calendar(names, [time]), expected, atol=1e-6)


def test_months_and_quarters_are_at_their_first_day():
    days = [datetime.date(2024, 4, 1), datetime.date(2024, 7, 1)]
    for cells in ("2024-04\n2024-07", "2024Q2\n2024Q3", "202404\n202407"):
        (table,) = read_series_tables(io.StringIO(f"t\n{cells}\n"), [], "t")
        values = table.with_calendar(["year_sin1"]).column("year_sin1")
        np.testing.assert_array_equal(values, compute_calendar(["year_sin1"], days)[:, 0])


def test_clocks_are_local_times():
    times = [
        datetime.datetime.fromisoformat(f"2024-01-01T06:00:00{zone}") for zone in ("", "+05:00")
    ]
    values = compute_calendar(["day_sin1"], times)
    np.testing.assert_allclose(values, [[1.0], [1.0]], atol=1e-6)


@pytest.mark.parametrize("name", ["decade_sin1", "week_sin", "week_sin0", "week_sin12", "week"])
def test_unknown_columns_raise_an_error(name):
    with pytest.raises(ValueError, match=f"such as 'week_sin1'.* Received: '{name}'"):
        compute_calendar(["year_sin1", name], [datetime.date(2024, 1, 1)])


def test_integers_have_no_calendar():
    with pytest.raises(ValueError, match="Expected dates, from which .*year_sin1.* Received: 7"):
        compute_calendar(["year_sin1"], [7])
    assert compute_calendar([], [7]).shape == (1, 0)


def test_library_and_runtime_accept_the_same_names():
    assert checks.NAME.pattern == NAME.pattern
