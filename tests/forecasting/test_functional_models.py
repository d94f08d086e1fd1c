import keras
import numpy as np
import pytest

from keras_attn.forecasting import (
    ForecastLoss,
    PathSampler,
    forecast_model,
    forecast_training_model,
)
from tests.contracts import assert_close, numpy
from tests.forecasting.small_forecaster import FUTURE, PAST, small_forecaster


@pytest.mark.slow
def test_training_with_missing_values_and_scheduled_sampling_lowers_the_loss():
    forecaster = small_forecaster(sampling_probability=0.2, dropout=0.1, seed=1)
    model = forecast_training_model(forecaster)
    model.compile(keras.optimizers.Adam(0.02), ForecastLoss(forecaster.head), jit_compile=False)
    future = FUTURE.copy()
    future[0, 1, 0] = np.nan
    past = PAST["past_targets"].copy()
    past[1, 2:4] = np.nan
    inputs = {**PAST, "past_targets": past, "future_targets": future}
    losses = model.fit(inputs, future, epochs=30, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < losses[0] - 0.3


def test_saved_model_forecasts_the_same(tmp_path):
    model = forecast_model(PathSampler(small_forecaster(), num_paths=4))
    inputs = {**PAST, "seeds": np.arange(4, dtype="int32")}
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(numpy(loaded(inputs)), numpy(model(inputs)))
