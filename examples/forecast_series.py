"""Trains a forecaster on generated seasonal series or on CSV files, and measures its forecasts.

python examples/forecast_series.py
python examples/forecast_series.py --csv train.csv test.csv --targets meantemp --season 365 ...
"""

import argparse
import json
import time
from pathlib import Path

import keras
import numpy as np
from series_data import calendar_covariates, generated_series, read_series, write_csv

from keras_attn import AttentionRNNCell, BahdanauAttention, RNNEncoder
from keras_attn.export import export_forecaster_onnx
from keras_attn.forecasting import (
    AutoregressiveForecaster,
    ForecastLoss,
    GaussianHead,
    PathSampler,
    PointHead,
    QuantileHead,
    StudentTHead,
    forecast_model,
    forecast_training_model,
    forecast_windows,
    interval_coverage,
    mean_absolute_scaled_error,
    sample_crps,
)
from keras_attn.training import RunDirectory, SeriesColumns
from keras_attn.visualize import plot_forecast

HEADS = {
    "gaussian": GaussianHead,
    "point": PointHead,
    "quantile": QuantileHead,
    "student_t": StudentTHead,
}


def column_range(text):
    """Returns `(name, (least, most))` of the text NAME=LEAST:MOST."""
    name, _, numbers = text.partition("=")
    least, _, most = numbers.partition(":")
    return name, (float(least), float(most))


parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--out", type=Path, default=Path("build/forecast"), help="output directory")
parser.add_argument(
    "--csv",
    type=Path,
    nargs="+",
    help="CSV files of one series with one row per day; "
    "columns that are not in --targets are ignored",
)
parser.add_argument("--time-column", default="date", help="column of ISO dates")
parser.add_argument("--targets", nargs="+", default=["value"], help="columns to forecast")
parser.add_argument(
    "--valid-range",
    type=column_range,
    action="append",
    default=[],
    metavar="NAME=LEAST:MOST",
    help="values of the column outside of this range count as missing",
)
parser.add_argument("--series", type=int, default=200, help="number of generated series")
parser.add_argument("--length", type=int, default=180, help="length of generated series")
parser.add_argument("--season", type=int, default=12, help="rows of a season, for the scores")
parser.add_argument("--horizon", type=int, default=12, help="rows to forecast")
parser.add_argument("--window", type=int, default=48, help="time steps that the encoder reads")
parser.add_argument(
    "--lags",
    type=int,
    nargs="*",
    default=[12, 24, 36],
    help="earlier rows that a step reads, from the horizon to the window",
)
parser.add_argument("--origins", type=int, default=3, help="forecasts of each series in the test")
parser.add_argument("--head", choices=HEADS, default="student_t")
parser.add_argument("--units", type=int, default=32)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--sampling-probability", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--learning-rate", type=float, default=3e-3)
parser.add_argument("--paths", type=int, default=200, help="sampled paths of each forecast")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
args.out.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(args.seed)

# 1. The data: series (N, time, D), and covariates (time, F) that are known in the future.
if args.csv is None:
    args.targets = ["value"]
    series = generated_series(args.series, args.length, args.season, args.seed)
    known_names, known, times = [], None, list(range(args.length))
    scaling = "std"  # each series has a different level
else:
    times, values = read_series(args.csv, args.time_column, args.targets, dict(args.valid_range))
    series, (known_names, known) = values[None], calendar_covariates(times)
    train_values = values[: -args.origins * args.horizon]
    # All windows are from one series, so that a fixed scale is possible. It keeps the level of a
    # window in the data.
    scaling = (np.nanmean(train_values, 0).tolist(), np.nanstd(train_values, 0).tolist())
num_series, length, num_targets = series.shape
test_length = args.origins * args.horizon
if length < args.window + 2 * args.horizon + test_length:
    raise SystemExit(
        f"Expected a series of at least window + (origins + 2) * horizon = "
        f"{args.window + 2 * args.horizon + test_length} time steps. Received: {length}."
    )


def windows(end, **arguments):
    """Windows of all series up to the time step `end`."""
    covariates = None if known is None else known[:end]
    sizes = args.window, args.horizon
    parts = [
        forecast_windows(each[:end], *sizes, covariates, covariates, **arguments) for each in series
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


train_end = length - test_length
train = windows(train_end - args.horizon)
valid = {name: each[-num_series * args.horizon :] for name, each in windows(train_end).items()}
if num_series > 1:
    valid = windows(train_end, stride=train_end)

# 2. The model.
encoder = RNNEncoder(keras.layers.GRUCell(args.units), dropout=args.dropout, seed=args.seed)
cell = AttentionRNNCell(
    keras.layers.GRUCell(args.units), BahdanauAttention(args.units), attention_units=args.units
)
forecaster = AutoregressiveForecaster(
    cell,
    HEADS[args.head](num_targets),
    encoder,
    args.horizon,
    num_past_covariates=len(known_names),
    num_future_covariates=len(known_names),
    lags=args.lags,
    scaling=scaling,
    dropout=args.dropout,
    sampling_probability=args.sampling_probability,
    seed=args.seed,
)
trainer = forecast_training_model(forecaster, args.window)
steps = args.epochs * -(-len(train["past_targets"]) // args.batch_size)
schedule = keras.optimizers.schedules.CosineDecay(
    0.0, max(1, steps * 9 // 10), warmup_target=args.learning_rate, warmup_steps=max(1, steps // 10)
)
trainer.compile(
    keras.optimizers.Adam(schedule, clipnorm=1.0), ForecastLoss(forecaster.head), jit_compile=False
)
started = time.process_time()
history = trainer.fit(
    train,
    train["future_targets"],
    validation_data=(valid, valid["future_targets"]),
    batch_size=args.batch_size,
    epochs=args.epochs,
    verbose=2,
)
minutes = (time.process_time() - started) / 60

# 3. The forecasts: the horizon after each origin, with all values before it.
levels = (0.05, 0.25, 0.5, 0.75, 0.95)
sampler = PathSampler(
    forecaster, num_paths=args.paths, quantiles=levels, return_attention_scores=True
)
model = forecast_model(sampler, args.window)
test = windows(length, stride=args.horizon)
per_series = len(test["past_targets"]) // num_series
rows = np.arange(num_series * per_series).reshape(num_series, -1)[:, -args.origins :]
test = {name: each[rows.reshape(-1)] for name, each in test.items()}
actual = test.pop("future_targets")
test["seeds"] = np.arange(len(actual), dtype="int32")
results = model.predict(test, batch_size=64, verbose=0)
median, paths = results["quantiles"][..., 2], np.moveaxis(results["paths"], 1, 0)


def mase(predicted, target=0):
    """Returns the mean MASE of a target over all series."""
    shape = (num_series, args.origins * args.horizon, num_targets)
    truth, predicted = actual.reshape(shape), predicted.reshape(shape)
    errors = [
        mean_absolute_scaled_error(
            truth[index, :, target],
            predicted[index, :, target],
            series[index, :train_end, target],
            args.season,
        )
        for index in range(num_series)
    ]
    return float(np.nanmean(errors))


def last_values(lag):
    """Returns the seasonal naive forecast: the values `lag` steps earlier, repeated."""
    forecasts = []
    for index in range(num_series):
        for origin in range(args.origins):
            start = train_end + origin * args.horizon
            steps = start - lag + np.arange(args.horizon) % lag
            forecasts.append(series[index, steps])
    return np.stack(forecasts)


scales = np.nanmean(np.abs(series), axis=1, keepdims=True)  # (N, 1, D)
scales = np.repeat(scales, args.origins, axis=0)  # (N * origins, 1, D)
low, high = results["quantiles"][..., 0], results["quantiles"][..., 4]
report = {
    "targets": {
        name: {
            "mase": mase(median, target),
            "mase_naive": mase(last_values(1), target),
            "mase_seasonal_naive": mase(last_values(args.season), target),
            "mean_absolute_error": float(np.nanmean(np.abs(actual - median)[..., target])),
            # The CRPS relative to the mean absolute value of the series.
            "relative_crps": sample_crps(
                (actual / scales)[..., target], (paths / scales)[..., target]
            ),
            "coverage_90": interval_coverage(*(each[..., target] for each in (actual, low, high))),
        }
        for target, name in enumerate(args.targets)
    },
    "test_points": int((~np.isnan(actual)).sum()),
    "train_windows": len(train["past_targets"]),
    "cpu_minutes": minutes,
    "parameters": trainer.count_params(),
    "arguments": vars(args),
}
print(json.dumps({name: each for name, each in report.items() if name != "arguments"}, indent=2))

# 4. The files: run directory with the Keras model, picture, test data for
# benchmarks/forecasting.py, ONNX file, and the CSV file that the runtime reads to forecast the last
# origin of the first series.
columns = SeriesColumns(args.targets, known_names, known_names, args.time_column)
RunDirectory.create(args.out, "series", series=columns).save_model(model)
shown = len(actual) // 2
plot_forecast(
    test["past_targets"][shown, :, 0],
    results["quantiles"][shown, :, 0],
    actual[shown, :, 0],
    results["attention_scores"][shown],
    levels,
    label=args.targets[0],
).savefig(args.out / "forecast.png", dpi=120)
sizes = {name: getattr(args, name) for name in ("horizon", "origins", "season")}
np.savez(args.out / "test.npz", series=series, median=median, targets=args.targets, **sizes)

last = slice(length - args.horizon - args.window, length if known_names else -args.horizon)
rows = series[0, last].copy()
if known_names:
    rows[-args.horizon :] = np.nan  # in the future, only the covariates are known
    rows = np.concatenate([rows, known[last]], axis=-1)
columns = [args.time_column, *args.targets, *known_names]
write_csv(args.out / "input.csv", columns, times[last], rows)
report["largest_onnx_difference"] = export_forecaster_onnx(
    model,
    args.out / "forecaster.onnx",
    target_names=args.targets,
    past_covariate_names=known_names,
    future_covariate_names=known_names,
    time_column=args.time_column,
    sample_inputs={name: each[:2] for name, each in test.items()},
)
(args.out / "results.json").write_text(json.dumps(report, indent=2, default=str))
print(f"largest difference between Keras and ONNX: {report['largest_onnx_difference']:.1e}")
