import numpy as np
import pytest

from keras_attn.forecasting import Series, score_forecasts


def test_scores_of_forecasts_with_a_constant_error():
    """A season of 3 with a trend of 1 each season: the seasonal naive error is 1 in all steps."""
    season = np.tile([0.0, 10.0, 5.0], 6) + np.repeat(np.arange(6), 3)
    values = [season, 100 * season + 7]
    series = [
        Series(list(range(18)), np.stack([each, -each], 1).astype("float32"), np.zeros((18, 0)))
        for each in values
    ]
    truth = np.stack([each.targets[-6:].reshape(2, 3, 2) for each in series]).reshape(4, 3, 2)
    scale = np.array([1.0, 1.0, 100.0, 100.0])[:, None, None]
    forecast = truth + 0.5 * scale
    quantiles = np.stack([forecast - 0.1 * scale, forecast, forecast + 0.1 * scale], axis=-1)
    quantiles[0, :, :, 0] = truth[0] - 1  # one of four windows covers the truth
    results = {"quantiles": quantiles, "paths": forecast[:, None]}
    scores = score_forecasts(series, results, ["a", "b"], origins=2, season=3, longer_seasons=[6])
    assert scores.keys() == {"a", "b"}
    for each in scores.values():
        assert each["mase"] == pytest.approx(0.5, abs=1e-4)
        assert each["mase_seasonal_naive"] == pytest.approx(1, abs=1e-4)
        assert each["mase_naive_6"] == pytest.approx(2, abs=1e-4)  # two seasons earlier
        assert each["mean_absolute_error"] == pytest.approx((0.5 + 50) / 2, rel=1e-4)
        assert each["coverage"] == 0.25 and each["interval"] == pytest.approx(0.9)
    # The last value before each origin is 5 + n: errors 4, 6, 1 with the next season.
    assert scores["a"]["mase_naive"] == pytest.approx((4 + 6 + 1) / 3, abs=1e-4)
    levels = [np.abs(each.targets[:, 0]).mean() for each in series]
    crps = np.mean([0.5 / levels[0], 50 / levels[1]])
    assert scores["a"]["relative_crps"] == pytest.approx(crps, rel=1e-4)


def test_missing_values_are_not_scored():
    targets = np.array([[1.0], [2.0], [4.0], [np.nan]], "float32")
    series = [Series([1, 2, 3, 4], targets, np.zeros((4, 0)))]
    results = {"quantiles": np.full((1, 1, 1, 1), 3.0), "paths": np.full((1, 1, 1, 1), 3.0)}
    scores = score_forecasts(series, results, ["a"], 1, season=1, quantile_levels=[0.5])["a"]
    assert np.isnan([scores[name] for name in ("mase", "mean_absolute_error", "coverage")]).all()
