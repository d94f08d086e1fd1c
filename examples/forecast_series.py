"""Trains a forecaster on monthly series, scores it, plots the next 12 months, and exports it.

    python examples/forecast_series.py
    keras-attn-runtime forecast build/forecast/forecaster.onnx --input build/forecast/series.csv

For your own CSV file, use `read_series` for `generate_series`, or run `keras-attn train forecast`.
"""

import argparse
import datetime
from pathlib import Path

import keras
import numpy as np

from keras_attn import AttentionRNNCell, BahdanauAttention, RNNEncoder
from keras_attn.files import atomic_replace
from keras_attn.forecasting import (
    AutoregressiveForecaster,
    ForecastLoss,
    PathSampler,
    StudentTHead,
    choose_calendar,
    choose_horizon,
    choose_lags,
    choose_season,
    choose_window,
    compute_calendar,
    covariate_scaling,
    forecast_model,
    forecast_training_model,
    generate_series,
    score_forecasts,
    split_windows,
    write_series,
)
from keras_attn.training import RunDirectory, SeriesColumns
from keras_attn.visualize import plot_forecast

EPOCHS, BATCH_SIZE, UNITS = 10, 128, 32
ORIGINS = 3  # forecasts of each series in the test
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # quantiles of the forecasts

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument(
    "--out", type=Path, default=Path("build/forecast"), help="run directory. Default: %(default)s"
)
out = parser.parse_args().out
keras.utils.set_random_seed(1)

# 1. The data: series with dates, calendar columns, and windows for training, validation and test.
series = generate_series()
season = choose_season(series[0].times)  # 12 months
horizon = choose_horizon(season)
window = choose_window(season, horizon, len(series[0]) - ORIGINS * horizon)
lags = choose_lags(season, horizon, window)
calendar = choose_calendar(series[0].times)
print(f"season {season}, horizon {horizon}, window {window}, lags {lags}, columns {calendar}")
series = [each.with_calendar(calendar) for each in series]
train, valid, test = split_windows(series, window, horizon, ORIGINS)

# 2. The model: an encoder of the window, and a cell with attention that predicts step by step.
encoder = RNNEncoder(keras.layers.GRUCell(UNITS), dropout=0.1, seed=1)
cell = AttentionRNNCell(
    keras.layers.GRUCell(UNITS), BahdanauAttention(UNITS), attention_units=UNITS
)
scaling = covariate_scaling(np.concatenate([each.covariates for each in series]))
forecaster = AutoregressiveForecaster(
    cell,
    StudentTHead(),
    encoder=encoder,
    horizon=horizon,
    num_past_covariates=len(calendar),
    num_future_covariates=len(calendar),
    lags=lags,
    past_covariate_scaling=scaling,
    future_covariate_scaling=scaling,
    dropout=0.1,
    seed=1,
)
trainer = forecast_training_model(forecaster, window)

# 3. The training, with teacher forcing: the labels are the future values.
steps = EPOCHS * -(-len(train["past_targets"]) // BATCH_SIZE)
schedule = keras.optimizers.schedules.CosineDecay(
    0.0, 9 * steps // 10, warmup_target=3e-3, warmup_steps=steps // 10
)
optimizer = keras.optimizers.Adam(schedule, clipnorm=1.0)
is_jax = keras.backend.backend() == "jax"  # which is slow without compilation
trainer.compile(optimizer, ForecastLoss(forecaster.head), jit_compile=is_jax)
trainer.fit(
    train,
    train["future_targets"],
    validation_data=(valid, valid["future_targets"]),
    batch_size=BATCH_SIZE,
    epochs=EPOCHS,
    verbose=2,
)

# 4. The test: forecasts of the last rows of each series, with quantiles of 200 sampled paths.
sampler = PathSampler(
    forecaster, num_paths=200, quantile_levels=LEVELS, return_attention_scores=True
)
model = forecast_model(sampler, window)
test["seeds"] = np.arange(len(test.pop("future_targets")), dtype="int32")
results = model.predict(test, batch_size=64, verbose=0)
scores = score_forecasts(series, results, ["value"], ORIGINS, season, LEVELS)["value"]
print(", ".join(f"{name} {score:.3g}" for name, score in scores.items()))

# 5. The run directory, with a picture of the next 12 months of the first series, after its data.
columns = SeriesColumns(["value"], calendar, calendar, "month", calendar, "series")
RunDirectory.create(out, "series", series=columns).save_model(model)
first, months = series[0], [series[0].times[-1]]
while len(months) <= horizon:
    months.append((months[-1] + datetime.timedelta(days=31)).replace(day=1))
inputs = {
    "past_targets": first.targets[None, -window:],
    "past_covariates": first.covariates[None, -window:],
    "future_covariates": compute_calendar(calendar, months[1:])[None],
    "seeds": np.array([1], "int32"),
}
results = model.predict(inputs, verbose=0)
figure = plot_forecast(
    inputs["past_targets"][0],
    results["quantiles"][0],
    attention=results["attention_scores"][0],
    quantile_levels=LEVELS,
    label="value",
    times=[*first.times[-window:], *months[1:]],
)
with atomic_replace(out / "forecast.png") as partial:
    figure.savefig(partial, dpi=120)
write_series(out / "series.csv", series, ["value"], "month", "series")
print(f"Wrote {out}/model.keras, forecast.png and series.csv")

# 6. The export, which needs TensorFlow. `keras-attn export onnx RUN FILE` does the same.
if keras.backend.backend() == "tensorflow":
    from keras_attn.export import export_forecaster_onnx

    report = export_forecaster_onnx(
        model,
        out / "forecaster.onnx",
        target_names=["value"],
        past_covariate_names=calendar,
        future_covariate_names=calendar,
        time_column="month",
        calendar_columns=calendar,
        series_column="series",
    )
    print(f"Wrote {out}/forecaster.onnx. {report.summary()}")
