"""Forecasting real-valued series: data, an autoregressive forecaster, heads and error measures."""

from keras_attn.forecasting._autoregressive_forecaster import AutoregressiveForecaster
from keras_attn.forecasting._choose_sizes import (
    choose_calendar,
    choose_horizon,
    choose_lags,
    choose_season,
    choose_window,
    longer_seasons,
)
from keras_attn.forecasting._compute_calendar import compute_calendar
from keras_attn.forecasting._covariate_scaling import covariate_scaling
from keras_attn.forecasting._distribution_head import DistributionHead
from keras_attn.forecasting._forecast_errors import (
    interval_coverage,
    mean_absolute_scaled_error,
    sample_crps,
)
from keras_attn.forecasting._forecast_loss import ForecastLoss
from keras_attn.forecasting._forecast_windows import forecast_windows
from keras_attn.forecasting._functional_models import forecast_model, forecast_training_model
from keras_attn.forecasting._gaussian_head import GaussianHead
from keras_attn.forecasting._generate_series import generate_series
from keras_attn.forecasting._path_sampler import PathSampler
from keras_attn.forecasting._point_head import PointHead
from keras_attn.forecasting._quantile_head import QuantileHead
from keras_attn.forecasting._read_series import read_series
from keras_attn.forecasting._score_forecasts import score_forecasts
from keras_attn.forecasting._series import Series
from keras_attn.forecasting._split_windows import split_windows
from keras_attn.forecasting._student_t_head import StudentTHead
from keras_attn.forecasting._write_series import write_series

__all__ = [
    "AutoregressiveForecaster",
    "DistributionHead",
    "ForecastLoss",
    "GaussianHead",
    "PathSampler",
    "PointHead",
    "QuantileHead",
    "Series",
    "StudentTHead",
    "choose_calendar",
    "choose_horizon",
    "choose_lags",
    "choose_season",
    "choose_window",
    "compute_calendar",
    "covariate_scaling",
    "forecast_model",
    "forecast_training_model",
    "forecast_windows",
    "generate_series",
    "interval_coverage",
    "longer_seasons",
    "mean_absolute_scaled_error",
    "read_series",
    "sample_crps",
    "score_forecasts",
    "split_windows",
    "write_series",
]
