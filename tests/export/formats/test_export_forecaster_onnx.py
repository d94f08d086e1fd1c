import keras
import numpy as np
import pytest
from keras_attn_runtime import Forecaster

from keras_attn.export import export_forecaster_onnx
from keras_attn.forecasting import PathSampler, StudentTHead, forecast_model
from tests.contracts import assert_close, numpy, randomize
from tests.forecasting.small_forecaster import PAST, small_forecaster

NAMES = {
    "target_names": ["t", "u"],
    "past_covariate_names": ["c"],
    "future_covariate_names": ["c"],
}


@pytest.fixture(scope="module")
def model():
    forecaster = small_forecaster(
        StudentTHead(2),
        past_covariate_scaling=([0.2], [1.5]),
        future_covariate_scaling=([-0.1], [2.0]),
    )
    model = forecast_model(PathSampler(forecaster, num_paths=3, return_attention_scores=True))
    randomize(forecaster)
    return model


@pytest.fixture(scope="module")
def forecaster(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("forecaster") / "forecaster.onnx"
    assert export_forecaster_onnx(model, path, **NAMES, time_column="day").largest_difference < 1e-4
    return Forecaster(path, num_threads=1)


def test_exported_file_samples_the_same_paths(model, forecaster):
    past = {name: value[:3] for name, value in PAST.items()}
    longer = np.concatenate([past["past_targets"], past["past_targets"] + 1], axis=1)
    longer[0, 5], longer[1] = np.nan, 4.0  # a missing value, and a constant series
    past["past_targets"] = longer
    past["past_covariates"] = np.tile(past["past_covariates"], (1, 2, 1))
    expected = model({**past, "seeds": np.array([7, 8, 9], "int32")})
    found = forecaster(past, seed=7)
    assert sorted(found) == ["attention_scores", "mean", "paths", "quantiles"]
    assert_close(found, numpy(expected), 1e-4)


def test_exported_settings_name_the_columns(forecaster):
    settings = forecaster.settings
    assert (settings.targets, settings.past_covariates) == (["t", "u"], ["c"])
    assert settings.future_covariates == ["c"] and settings.time_column == "day"
    assert settings.calendar_columns == [] and settings.series_column is None
    assert (settings.horizon, settings.min_window, settings.window) == (3, 4, None)
    assert settings.quantile_levels == [0.05, 0.5, 0.95] and settings.num_paths == 3
    assert "keras" in settings.versions


def test_export_with_wrong_arguments_raises_an_error(model, tmp_path):
    path = tmp_path / "forecaster.onnx"
    with pytest.raises(ValueError, match="Expected 2 different names of targets"):
        export_forecaster_onnx(model, path, target_names=["t"])
    with pytest.raises(ValueError, match=r"Received: \['t'\] in both"):
        export_forecaster_onnx(model, path, **{**NAMES, "past_covariate_names": ["t"]})
    for names in (["week_sin1"], ["c"]):
        with pytest.raises(ValueError, match=f"Expected calendar_columns.*'{names[0]}'"):
            export_forecaster_onnx(model, path, **NAMES, calendar_columns=names)
    inputs = keras.Input((3,))
    with pytest.raises(ValueError, match="with one PathSampler"):
        export_forecaster_onnx(keras.Model(inputs, keras.layers.Dense(2)(inputs)), path)
    assert not path.exists()
