import pytest
from keras_attn_runtime.series_times import next_times, parse_time, steps_between, time_step


@pytest.mark.parametrize(
    "times, expected",
    [
        (["1", "3", "5"], ["7", "9"]),
        (["2024-02-28", "2024-02-29"], ["2024-03-01", "2024-03-02"]),
        (["2024-12-20", "2024-12-27"], ["2025-01-03", "2025-01-10"]),
        (["2023-11-01", "2023-12-01", "2024-01-01"], ["2024-02-01", "2024-03-01"]),
        (["2023-10-05", "2024-01-05"], ["2024-04-05", "2024-07-05"]),
        (["2022-02-01", "2023-02-01"], ["2024-02-01", "2025-02-01"]),
        (["2024-03-01 22:00", "2024-03-01 23:00"], ["2024-03-02 00:00:00", "2024-03-02 01:00:00"]),
    ],
)
def test_next_times_continue_the_step(times, expected):
    parsed = [(line, parse_time(time, line)) for line, time in enumerate(times, 2)]
    found = next_times(parsed[-1][1], time_step(parsed), 2)
    assert [str(time) for time in found] == expected


@pytest.mark.parametrize(
    "times, message",
    [
        (["1"], "at least two times"),
        (["1", "2024-01-01"], "same kind"),
        (["5", "5"], "increasing"),
        (["1", "3", "2"], "Received: 2 in line 4 after 3"),
        (["2024-01-01 00:00", "2024-01-02 00:00+00:00"], "same kind"),
        (["1", "3", "5", "6"], "such as 7 after 5. Received: 6 in line 5"),
        (["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-02"], "such as 2024-04-01"),
        (
            ["2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 01:30", "2024-01-01 02:30"],
            "such as .*02:00:00 after",
        ),
    ],
)
def test_wrong_times_raise_an_error(times, message):
    parsed = [(line, parse_time(time, line)) for line, time in enumerate(times, 2)]
    with pytest.raises(ValueError, match=message):
        time_step(parsed)


@pytest.mark.parametrize(
    "times, steps",
    [
        (["1", "4", "5", "6"], [3, 1, 1]),
        (["1", "2", "4"], [1, 2]),
        (["2024-01-01", "2024-03-01", "2024-04-01"], [2, 1]),
        (["2024-02-27", "2024-03-01", "2024-03-02"], [3, 1]),
        (["2024-01-05", "2024-01-08", "2024-01-09"], [3, 1]),  # a weekend
        (["2024-02-05", "2024-02-06", "2024-03-06"], [1, 29]),
    ],
)
def test_the_step_is_the_most_frequent_difference(times, steps):
    parsed = [(line, parse_time(time, line)) for line, time in enumerate(times, 2)]
    step = time_step(parsed)
    pairs = zip(parsed, parsed[1:], strict=False)
    assert [steps_between(before, time, step) for (_, before), (_, time) in pairs] == steps
