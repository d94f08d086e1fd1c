import datetime

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.dates import date2num, num2date

from keras_attn.visualize import plot_forecast

PAST = np.array([1.0, np.nan, 3.0, 2.0])
QUANTILES = np.array([[1.0, 2.0, 3.0], [0.0, 2.0, 5.0]])
WEIGHTS = np.array([[0.1, 0.0, 0.2, 0.7], [0.5, 0.0, 0.3, 0.2]])


def test_plot_shows_past_interval_median_and_true_values():
    figure = plot_forecast(PAST, QUANTILES, actual=[2.0, 3.0], title="A", label="B $x")
    (ax,) = figure.axes
    past, median, actual, _ = ax.lines
    np.testing.assert_array_equal(past.get_xydata()[[0, -1]], [[-3, 1], [0, 2]])
    np.testing.assert_array_equal(median.get_xydata(), [[1, 2], [2, 2]])
    np.testing.assert_array_equal(actual.get_xydata(), [[1, 2], [2, 3]])
    (interval,) = ax.collections
    (path,) = interval.get_paths()
    assert {(1.0, 1.0), (2.0, 5.0)} <= set(map(tuple, path.vertices))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["past", "90 % interval", "median", "true values"]


def test_plot_shows_attention_below_the_past():
    figure = plot_forecast(PAST, QUANTILES, attention=WEIGHTS)
    (mesh,) = figure.axes[1].collections
    np.testing.assert_allclose(mesh.get_array().reshape(2, 4), WEIGHTS, rtol=1e-6)
    corners = mesh.get_coordinates()
    assert tuple(corners[0, 0]) == (-3.5, 0.5) and tuple(corners[-1, -1]) == (0.5, 2.5)
    assert figure.axes[1].yaxis_inverted()  # the first step is at the top


def test_plot_shows_each_target_with_its_label_and_dates():
    times = [datetime.date(2023, month, 1) for month in (8, 9, 10, 11, 12)]
    times.append(datetime.date(2024, 1, 1))
    past = np.stack([PAST, 10 * PAST], axis=1)
    quantiles = np.stack([QUANTILES, 10 * QUANTILES], axis=1)
    actual = [[2.0, 20.0], [3.0, 30.0]]
    figure = plot_forecast(past, quantiles, actual, WEIGHTS, label=["a", "b"], times=times)
    first, second, heat_map, _ = figure.axes
    assert (first.get_ylabel(), second.get_ylabel()) == ("a", "b")
    assert first.get_legend() is not None and second.get_legend() is None
    for factor, ax in ((1, first), (10, second)):
        past_line, median, true = ax.lines[:3]
        np.testing.assert_array_equal(past_line.get_ydata(), factor * PAST)
        np.testing.assert_array_equal(median.get_ydata(), factor * QUANTILES[:, 1])
        np.testing.assert_array_equal(true.get_ydata(), [2 * factor, 3 * factor])
        assert [str(num2date(x).date()) for x in median.get_xdata()] == ["2023-12-01", "2024-01-01"]
    figure.canvas.draw()
    labels = [text.get_text() for text in heat_map.get_xticklabels()]
    assert "2024" in labels and "Oct" in labels
    edges = heat_map.collections[0].get_coordinates()[0, :, 0]
    assert edges[4] == (date2num(times[3]) + date2num(times[4])) / 2


def test_times_may_be_numbers_or_have_a_zone():
    figure = plot_forecast(PAST, QUANTILES, times=[2000, 2001, 2002, 2003, 2004, 2005])
    assert figure.axes[0].lines[1].get_xdata().tolist() == [2004, 2005]
    zone = datetime.timezone(datetime.timedelta(hours=5))
    hours = [datetime.datetime(2024, 1, 1, hour, tzinfo=zone) for hour in range(6)]
    figure = plot_forecast(PAST, QUANTILES, times=hours)
    figure.canvas.draw()
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert "01:00" in labels and "04:00" in labels  # local times
    with pytest.raises(ValueError, match="a time for each of 4 past and 2 future steps.* 5 times"):
        plot_forecast(PAST, QUANTILES, times=hours[:5])
    with pytest.raises(ValueError, match="Expected increasing times"):
        plot_forecast(PAST, QUANTILES, times=hours[::-1])
    with pytest.raises(ValueError, match="a label for each of 1 targets"):
        plot_forecast(PAST, QUANTILES, label=["a", "b"])


def test_plot_of_wrong_shapes_names_the_shapes():
    with pytest.raises(ValueError, match=r"'actual': \(3,\)"):
        plot_forecast(PAST, QUANTILES, actual=np.ones(3))
    with pytest.raises(ValueError, match=r"'attention': \(2, 3\)"):
        plot_forecast(PAST, QUANTILES, attention=np.ones((2, 3)))


def test_masked_cells_are_missing_values():
    past = np.ma.masked_array([1.0, -99.0, 3.0, 2.0], [False, True, False, False])
    quantiles = np.ma.masked_array(QUANTILES, np.arange(6).reshape(2, 3) == 4)
    actual = np.ma.masked_array([2, -99], [False, True])
    figure = plot_forecast(past, quantiles, actual=actual)
    drawn = [line.get_ydata() for line in figure.axes[0].lines[:3]]
    np.testing.assert_array_equal(drawn[0], PAST)
    np.testing.assert_array_equal(drawn[1], [2.0, np.nan])
    np.testing.assert_array_equal(drawn[2], [2.0, np.nan])


@pytest.mark.parametrize(
    "levels",
    [(0.5, 0.05, 0.95), (0, 0.5, 1), (0.1, 0.1, 0.9), (0.1, np.nan, 0.9), (5, 50, 95), "abc"],
)
def test_levels_are_increasing_numbers_between_0_and_1(levels):
    with pytest.raises(ValueError, match=r"levels in \(0, 1\) in increasing order"):
        plot_forecast(PAST, QUANTILES, quantile_levels=levels)


def test_plot_of_nothing_is_refused():
    for past, quantiles in ([], QUANTILES), (PAST, np.zeros((0, 3))), (PAST, 3.0), (PAST, [1.0]):
        with pytest.raises(ValueError, match="at least one past value, and quantiles of shape"):
            plot_forecast(past, quantiles)
