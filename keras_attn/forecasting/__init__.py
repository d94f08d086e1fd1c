"""Forecasting real-valued series: an autoregressive forecaster, heads and error measures."""

from keras_attn.forecasting.autoregressive_forecaster import AutoregressiveForecaster
from keras_attn.forecasting.distribution_head import DistributionHead
from keras_attn.forecasting.forecast_errors import (
    interval_coverage,
    mean_absolute_scaled_error,
    sample_crps,
)
from keras_attn.forecasting.forecast_loss import ForecastLoss
from keras_attn.forecasting.forecast_windows import forecast_windows
from keras_attn.forecasting.forecasting_models import forecast_model, forecast_training_model
from keras_attn.forecasting.gaussian_head import GaussianHead
from keras_attn.forecasting.path_sampler import PathSampler
from keras_attn.forecasting.point_head import PointHead
from keras_attn.forecasting.quantile_head import QuantileHead
from keras_attn.forecasting.student_t_head import StudentTHead

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
