import datetime

import pytest
from keras_attn_runtime._series.steps import next_times, steps_between, time_step
from keras_attn_runtime._series.times import parse_times


def parse(times):
    """Returns pairs of line and time, each parsed as a column of its own."""
    return [(line, parse_times([time], [line], "date")[0]) for line, time in enumerate(times, 2)]


@pytest.mark.parametrize(
    "times, expected",
    [
        (["1", "3", "5"], ["7", "9"]),
        (["2024-02-28", "2024-02-29"], ["2024-03-01", "2024-03-02"]),
        (["2024-12-20", "2024-12-27"], ["2025-01-03", "2025-01-10"]),
        (["2023-11-01", "2023-12-01", "2024-01-01"], ["2024-02-01", "2024-03-01"]),
        (["2023-10-05", "2024-01-05"], ["2024-04-05", "2024-07-05"]),
        (["2022-02-01", "2023-02-01"], ["2024-02-01", "2025-02-01"]),
        (["2023-12-31", "2024-01-31"], ["2024-02-29", "2024-03-31"]),
        (["2023-01-31", "2023-02-28"], ["2023-03-31", "2023-04-30"]),
        (["2023-04-30", "2023-05-31"], ["2023-06-30", "2023-07-31"]),
        (["2023-06-30", "2023-09-30"], ["2023-12-31", "2024-03-31"]),  # quarters
        (["2022-02-28", "2023-02-28"], ["2024-02-29", "2025-02-28"]),  # years at month ends
        (["2023-02-28", "2024-02-28"], ["2025-02-28", "2026-02-28"]),  # years
        (["2023-12-30", "2024-01-30"], ["2024-02-29", "2024-03-30"]),
        (["2023-11-29", "2023-12-29", "2024-01-29"], ["2024-02-29", "2024-03-29"]),
        (["2023-01-31", "2023-02-28", "2023-03-28"], ["2023-04-25", "2023-05-23"]),  # 28 days
        (["2024-03-31", "2024-04-30", "2024-05-30"], ["2024-06-29", "2024-07-29"]),  # 30 days
        (["2024-11", "2024-12"], ["2025-01", "2025-02"]),
        (["2024Q2", "2024Q3"], ["2024Q4", "2025Q1"]),
        (["2023-03", "2024-03"], ["2025-03", "2026-03"]),
        (  # hours over a change of the clock
            ["2024-03-31 01:00+01:00", "2024-03-31 03:00+02:00"],
            ["2024-03-31 04:00:00+02:00", "2024-03-31 05:00:00+02:00"],
        ),
        (["2024-03-01 22:00", "2024-03-01 23:00"], ["2024-03-02 00:00:00", "2024-03-02 01:00:00"]),
    ],
)
def test_next_times_continue_the_step(times, expected):
    parsed = parse(times)
    found = next_times(parsed[-1][1], time_step(parsed), 2)
    assert [str(time) for time in found] == expected


@pytest.mark.parametrize(
    "times, message",
    [
        (["1"], "at least two times"),
        (["1", "2024-01-01"], "same kind"),
        (["5", "5"], "increasing times.*--series-column"),
        (["9999-12-30", "9999-12-31"], "before the year 10000. Received: 9999-12-31"),
        (["9999-11-30", "9999-12-31"], "before the year 10000. Received: 9999-12-31"),
        (
            ["2024-03-30T00:00+01:00", "2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00"],
            "2024-04-01 00:00:00.02:00 in line 4 after .*change of the clock.*without the offset",
        ),
        (["2024-03-31 00:00+01:00", "2024-04-01 00:00+02:00"], "change of the clock"),
        (["2024-03-01 00:00+01:00", "2024-04-01 00:00+02:00"], "change of the clock"),
        (
            ["2024-03-31T00:00+01:00", "2024-03-31T12:00+02:00", "2024-04-01T00:00+02:00"]
            + ["2024-04-01T12:00+02:00"],
            "equal steps.*in line 3 after.*Write local times without the offset",
        ),
        (["1", "3", "2"], "Received: 2 in line 4 after 3"),
        (["2024-01-01 00:00", "2024-01-02 00:00+00:00"], "same kind"),
        (["1", "3", "5", "6"], "such as 7 after 5. Received: 6 in line 5"),
        (["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-02"], "such as 2024-04-01"),
        (
            ["2024-01-31", "2024-02-28", "2024-03-31", "2024-04-30", "2024-05-31"],
            "such as 2024-02-29 after 2024-01-31. Received: 2024-02-28 in line 3",
        ),
        (
            ["2024-01-30", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"],
            "such as 2024-02-29 after 2024-01-31. Received: 2024-02-29 in line 3 after 2024-01-30",
        ),
        (
            ["2024-01-31 00:00", "2024-02-29 00:00", "2024-03-31 00:00", "2024-04-30 01:00"],
            "such as 2024-04-30 00:00:00 after",
        ),
        (["2023-12-31", "2024-03-31", "2024-06-30", "2024-08-31"], "such as 2024-09-30 after"),
        (
            ["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 01:30", "2024-01-01 02:30"],
            "such as .*02:00:00 after",
        ),
    ],
)
def test_wrong_times_raise_an_error(times, message):
    parsed = parse(times)
    with pytest.raises(ValueError, match=message):
        next_times(parsed[-1][1], time_step(parsed), 1)


@pytest.mark.parametrize(
    "times, steps",
    [
        (["1", "4", "5", "6"], [3, 1, 1]),
        (["1", "2", "4"], [1, 2]),
        (["2024-01-01", "2024-03-01", "2024-04-01"], [2, 1]),
        (["2024-02-27", "2024-03-01", "2024-03-02"], [3, 1]),
        (["2023-11-30", "2024-02-29", "2024-03-31", "2024-04-30"], [3, 1, 1]),
        (["2023-11-30", "2024-01-30", "2024-02-29"], [2, 1]),
        (["2024-01-30", "2024-01-31", "2024-02-29", "2024-03-01"], [1, 29, 1]),
        (["2024-01-05", "2024-01-08", "2024-01-09"], [3, 1]),  # a weekend
        (["2024-02-05", "2024-02-06", "2024-03-06"], [1, 29]),
    ],
)
def test_the_step_is_the_most_frequent_difference(times, steps):
    parsed = parse(times)
    step = time_step(parsed)
    pairs = zip(parsed, parsed[1:], strict=False)
    assert [steps_between(before, time, step) for (_, before), (_, time) in pairs] == steps


@pytest.mark.parametrize("months", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("day", range(1, 32))
def test_steps_of_months_keep_the_day_of_the_month(months, day):
    expected = []
    for number in range(0, 60 * months, months):
        year, month = 2022 + number // 12, number % 12 + 1
        end = (datetime.date(year + month // 12, month % 12 + 1, 1) - datetime.timedelta(1)).day
        expected.append(datetime.date(year, month, min(day, end)))
    given = expected[:20]
    step = time_step(list(enumerate(given)))
    assert next_times(given[-1], step, 40) == expected[20:]
    steps = [steps_between(*pair, step) for pair in zip(given, given[1:], strict=False)]
    assert steps == [1] * 19 and steps_between(expected[0], expected[59], step) == 59
