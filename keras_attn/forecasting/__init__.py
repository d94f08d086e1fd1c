"""Forecasting real-valued series: an autoregressive forecaster, heads and error measures."""

from keras_attn.forecasting._autoregressive_forecaster import AutoregressiveForecaster
from keras_attn.forecasting._distribution_head import DistributionHead
from keras_attn.forecasting._forecast_errors import (
    interval_coverage,
    mean_absolute_scaled_error,
    sample_crps,
)
from keras_attn.forecasting._forecast_loss import ForecastLoss
from keras_attn.forecasting._forecast_windows import forecast_windows
from keras_attn.forecasting._forecasting_models import forecast_model, forecast_training_model
from keras_attn.forecasting._gaussian_head import GaussianHead
from keras_attn.forecasting._path_sampler import PathSampler
from keras_attn.forecasting._point_head import PointHead
from keras_attn.forecasting._quantile_head import QuantileHead
from keras_attn.forecasting._student_t_head import StudentTHead

__all__ = [
    "AutoregressiveForecaster",
    "DistributionHead",
    "ForecastLoss",
    "GaussianHead",
    "PathSampler",
    "PointHead",
    "QuantileHead",
    "StudentTHead",
    "forecast_model",
    "forecast_training_model",
    "forecast_windows",
    "interval_coverage",
    "mean_absolute_scaled_error",
    "sample_crps",
]
