import numpy as np
import pytest

pytest.importorskip("matplotlib")

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
    (image,) = figure.axes[1].images
    np.testing.assert_allclose(image.get_array(), WEIGHTS, rtol=1e-6)
    assert tuple(image.get_extent()) == (-3.5, 0.5, 2.5, 0.5)


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
