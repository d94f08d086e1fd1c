from typing import Any

import keras

from keras_attn._layer.argument_checks import check_positive_integer
from keras_attn._models.functional_model import functional_model
from keras_attn.forecasting._autoregressive_forecaster import AutoregressiveForecaster
from keras_attn.forecasting._path_sampler import PathSampler


def forecast_training_model(
    forecaster: AutoregressiveForecaster,
    window: int | None = None,
    name: str = "forecast_training_model",
) -> keras.Model:
    """Creates a functional model that trains a forecaster with teacher forcing.

    The label is equal to the input `future_targets`:

    ```python
    model.compile("adam", ForecastLoss(forecaster.head))
    model.fit(windows, windows["future_targets"])  # windows from `forecast_windows`
    ```

    Args:
        forecaster: `AutoregressiveForecaster`.
        window: Int, number of past time steps. Defaults to `None`: any number.
        name: String, model name. Defaults to `"forecast_training_model"`.

    Returns:
        `keras.Model` that returns the forecaster's output. Its inputs are a dict with
        `past_targets`, `future_targets` and, if the forecaster uses covariates, `past_covariates`
        and `future_covariates`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, LuongAttention, RNNEncoder
    >>> from keras_attn.forecasting import (
    ...     AutoregressiveForecaster, GaussianHead, forecast_training_model,
    ... )
    >>> cell = AttentionRNNCell(keras.layers.GRUCell(8), LuongAttention())
    >>> encoder = RNNEncoder(keras.layers.GRUCell(4))
    >>> forecaster = AutoregressiveForecaster(
    ...     cell, GaussianHead(), encoder=encoder, horizon=3
    ... )
    >>> model = forecast_training_model(forecaster)
    >>> past, future = np.ones((2, 7, 1), "float32"), np.ones((2, 3, 1), "float32")
    >>> tuple(model({"past_targets": past, "future_targets": future}).shape)
    (2, 3, 1, 4)
    """
    inputs = _inputs(forecaster, window)
    shape = (forecaster.horizon, forecaster.num_targets)
    inputs["future_targets"] = keras.Input(shape, name="future_targets", dtype="float32")
    return functional_model(inputs, forecaster(**inputs), name)


def forecast_model(
    sampler: PathSampler, window: int | None = None, name: str = "forecast_model"
) -> keras.Model:
    """Creates a functional model that forecasts with a `PathSampler`.

    Save the model with `save`, and export it with `keras_attn.export.export_forecaster_onnx`.

    Args:
        sampler: `PathSampler`.
        window: Int, number of past time steps. Defaults to `None`: any number.
        name: String, model name. Defaults to `"forecast_model"`.

    Returns:
        `keras.Model` that returns the sampler's dict. Its inputs are a dict with `past_targets`,
        `seeds` (int32 of shape `(batch,)`) and, if the forecaster uses covariates,
        `past_covariates` and `future_covariates`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from keras_attn import AttentionRNNCell, LuongAttention, RNNEncoder
    >>> from keras_attn.forecasting import (
    ...     AutoregressiveForecaster, GaussianHead, PathSampler, forecast_model,
    ... )
    >>> cell = AttentionRNNCell(keras.layers.GRUCell(8), LuongAttention())
    >>> encoder = RNNEncoder(keras.layers.GRUCell(4))
    >>> forecaster = AutoregressiveForecaster(
    ...     cell, GaussianHead(), encoder=encoder, horizon=3
    ... )
    >>> model = forecast_model(PathSampler(forecaster, num_paths=10))
    >>> inputs = {"past_targets": np.ones((2, 7, 1), "float32"), "seeds": np.array([1, 2])}
    >>> model.predict(inputs, verbose=0)["mean"].shape
    (2, 3, 1)
    """
    inputs = _inputs(sampler.forecaster, window)
    inputs["seeds"] = keras.Input((), name="seeds", dtype="int32")
    return functional_model(inputs, sampler(**inputs), name)


def _inputs(forecaster: AutoregressiveForecaster, window: int | None) -> dict[str, Any]:
    if window is not None:
        check_positive_integer("window", window)
    shapes = {"past_targets": (window, forecaster.num_targets)}
    if forecaster.num_past_covariates:
        shapes["past_covariates"] = (window, forecaster.num_past_covariates)
    if forecaster.num_future_covariates:
        shapes["future_covariates"] = (forecaster.horizon, forecaster.num_future_covariates)
    return {name: keras.Input(shape, name=name, dtype="float32") for name, shape in shapes.items()}
