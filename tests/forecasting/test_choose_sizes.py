import datetime

import pytest

from keras_attn.forecasting import (
    choose_calendar,
    choose_horizon,
    choose_lags,
    choose_season,
    choose_window,
    longer_seasons,
)

START = datetime.datetime(2023, 1, 1)


def times(number, **step):
    return [START + index * datetime.timedelta(**step) for index in range(number)]


def months(number, step):
    return [
        datetime.date(2020 + month // 12, month % 12 + 1, 1)
        for month in range(0, number * step, step)
    ]


@pytest.mark.parametrize(
    "series, season",
    [
        (times(5, seconds=10), 360),
        (times(5, minutes=15), 96),
        (times(5, hours=1), 24),
        (times(5, days=1), 7),
        (times(5, days=2), 1),  # a week has 3.5 rows
        (times(5, weeks=1), 52),
        (months(2, 1), 12),
        (months(5, 3), 4),
        (months(3, 12), 1),
        ([1, 2, 3], 1),
        (times(1, days=1), 1),
    ],
)
def test_choose_season_follows_the_step(series, season):
    assert choose_season(series) == season


@pytest.mark.parametrize(
    "season, horizon, num_rows, window, lags",
    [
        (24, 24, 2000, 96, [24, 48, 72, 96]),
        (7, 14, 1000, 28, [14, 21, 28]),
        (12, 12, 132, 44, [12, 24, 36]),
        (52, 13, 500, 104, [52, 104]),
        (365, 30, 1500, 60, []),
        (168, 24, 3000, 168, [168]),  # a week of hours
        (1, 6, 1000, 12, []),
        (7, 30, 60, 30, []),
    ],
)
def test_choose_window_and_lags_follow_season_and_horizon(season, horizon, num_rows, window, lags):
    assert choose_window(season, horizon, num_rows) == window
    assert choose_lags(season, horizon, window) == lags
    assert all(horizon <= lag <= window and lag % season == 0 for lag in lags)


@pytest.mark.parametrize("season, horizon", [(1, 6), (7, 7), (24, 24), (288, 48)])
def test_choose_horizon_is_one_season(season, horizon):
    assert choose_horizon(season) == horizon


def periods(series):
    names = choose_calendar(series)
    pairs = [name.split("_") for name in names]
    return {period: sum(name == period for name, _ in pairs) for period, _ in pairs}


@pytest.mark.parametrize(
    "series, expected",
    [
        (times(100, hours=1), {"day": 6}),
        (times(24 * 14, hours=1), {"day": 6, "week": 6}),
        (times(800, minutes=5), {"hour": 2, "day": 6}),
        (times(731, days=1), {"week": 6, "year": 4}),
        (times(60, days=1), {"week": 6}),
        (months(24, 1), {"year": 4}),
        (months(23, 1), {}),
        (months(8, 3), {"year": 4}),
        ([1, 2, 3], {}),
    ],
)
def test_choose_calendar_has_the_periods_that_the_times_cover_twice(series, expected):
    assert periods(series) == expected


@pytest.mark.parametrize(
    "series, season, longer",
    [
        (times(400, hours=1), 24, [168]),
        (times(300, hours=1), 24, []),  # less than two weeks
        (times(3000, hours=6), 4, [28, 1461]),
        (times(900, days=1), 7, []),  # a year has no whole number of days
        (times(5000, minutes=1), 60, [1440]),
        ([1, 2, 3, 4], 1, []),
    ],
)
def test_longer_seasons_are_covered_twice(series, season, longer):
    assert longer_seasons(series, season) == longer
