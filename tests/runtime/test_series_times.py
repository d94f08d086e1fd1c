import datetime

import pytest
from keras_attn_runtime._series.times import parse_times


def parse(*cells):
    return parse_times(cells, range(2, 2 + len(cells)), "date")


@pytest.mark.parametrize(
    "cells, first, kind",
    [
        (["1", "-2", "007"], "1", int),
        (["2023", "2024"], "2023", int),
        (["45322", "45323"], "45322", int),  # serial numbers of Excel
        (["1704067200", "1704153600"], "1704067200", int),  # seconds since 1970
        (["18991231", "18991232"], "18991231", int),
        (["210001", "210002"], "210001", int),
        (["2024-01-31", " 2024-02-01 "], "2024-01-31", datetime.date),
        (["2024-W05-3"], "2024-01-31", datetime.date),
        (["20240131", "20240201"], "20240131", datetime.date),
        (["202412", "202501"], "202412", datetime.date),
        (["2024-01", "2024-02"], "2024-01", datetime.date),
        (["2024Q1", "2024Q4"], "2024Q1", datetime.date),
        (["2024-01-31 23:00", "2024-02-01 00:00"], "2024-01-31 23:00:00", datetime.datetime),
        (["2024-01-31T23:00:59.5"], "2024-01-31 23:00:59.500000", datetime.datetime),
        (["20240131T2300"], "2024-01-31 23:00:00", datetime.datetime),
        (["2024-01-31 00:00:00.123456000"], "2024-01-31 00:00:00.123456", datetime.datetime),
        (["2024-01-31 23:00:00Z"], "2024-01-31 23:00:00+00:00", datetime.datetime),
        (["2024-01-31 23:00:00+01:00"], "2024-01-31 23:00:00+01:00", datetime.datetime),
    ],
)
def test_times_are_written_in_the_form_of_the_file(cells, first, kind):
    times = parse(*cells)
    assert isinstance(times[0], kind) and str(times[0]) == first


def test_compact_dates_and_periods_are_the_days_that_they_name():
    assert parse("20240229")[0] == datetime.date(2024, 2, 29)
    assert parse("202402")[0] == parse("2024-02")[0] == datetime.date(2024, 2, 1)
    assert parse("2024Q3")[0] == datetime.date(2024, 7, 1)


@pytest.mark.parametrize(
    "cell",
    [
        *("", "NaT", "NA", "31.01.2024", "1/31/2024", "31/01/2024", "Jan-24", "2024/01/31"),
        *("2024-1-31", "2024-02-30", "2024-13", "2024Q5", "2024 Q1", "10000-01-01", "2024-W05"),
        *("2024-01-01/2024-01-07", "45322.5", "20240131.0", "1e3", "1_000", "1,000", "١٢", "+5"),
        *("2024-01-31 24:00", "2024-01-31 9:00", "2024-01-31 11 PM", "2024-01-31 23:00 UTC"),
        *("2024-01-31 00:00:00.123456789", "٢٠٢٤-٠١-٠١", "9" * 5000),
    ],
)
def test_other_forms_raise_an_error_with_line_column_and_cell(cell):
    with pytest.raises(ValueError, match="column 'date', line 2. Received: ") as error:
        parse(cell, "2024-01-31")
    assert repr(cell)[:40] in str(error.value)


@pytest.mark.parametrize(
    "cells, message",
    [
        (["2024-01-01", "2"], "'2' in line 3, an integer, after '2024-01-01', a date such as"),
        (["2024-01-01", "2024-01-01 12:00"], "in line 3"),
        (["2024-01-01 00:00", "2024-01-02 00:00Z"], "in line 3"),
        (["2024-01", "2024-02-01"], "in line 3"),
        (["20240131", "20240132"], "'20240132' in line 3, an integer, and '20240131' in line 2"),
        (["20240229", "20250229"], "'20250229' in line 3.*a date such as 20240131"),
        (["202412", "202413"], "'202413' in line 3.*a month such as 202401"),
        (["1", "20240131"], "'1' in line 2"),
        (["2024013123", "2024020100"], "line 2. Received: '2024013123', which can be a time"),
        (["202401312359"], "Received: '202401312359', which can be a time"),
        (["20240131235959"], "Received: '20240131235959', which can be a time"),
    ],
)
def test_mixed_and_ambiguous_forms_raise_an_error(cells, message):
    with pytest.raises(ValueError, match=message):
        parse(*cells)
