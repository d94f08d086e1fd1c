import datetime

import numpy as np
import pytest
import series_data

CSV = """date,temperature,pressure
2024-02-28,10.5,1015
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


def test_csv_is_sorted_and_invalid_or_absent_values_are_missing(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(CSV)
    dates, values = series_data.read_series(
        [tmp_path / "a.csv"], "date", ["temperature", "pressure"], {"pressure": (950.0, 1050.0)}
    )
    assert dates == [datetime.date(2024, 2, 28) + datetime.timedelta(day) for day in range(4)]
    nan = np.nan
    expected = [[11, nan], [13, 1012], [nan, nan], [12, nan]]
    np.testing.assert_array_equal(values, np.array(expected, "float32"))
    assert "pressure: 1 values outside" in capsys.readouterr().out


def test_csv_without_a_column_names_it(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(SystemExit, match=r"columns \['wind'\]"):
        series_data.read_series([tmp_path / "a.csv"], "date", ["wind"], {})


def test_calendar_covariates_repeat_each_year():
    days = [datetime.date(year, 7, 1) for year in (2021, 2022)] + [datetime.date(2022, 1, 1)]
    names, values = series_data.calendar_covariates(days)
    assert names == ["year_sin1", "year_cos1", "year_sin2", "year_cos2"]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_allclose(values[2], [0, 1, 0, 1], atol=1e-6)
