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
