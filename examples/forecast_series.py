"""Trains a forecaster on generated seasonal series or on CSV files, and measures its forecasts.

python examples/forecast_series.py
python examples/forecast_series.py --csv FILE.csv --targets sales --known-covariates price ...
"""

import json
import time

import keras
import numpy as np
from keras_attn_runtime._files.atomic_files import require_different_files
from keras_attn_runtime._series.csv_rows import DELIMITERS
from keras_attn_runtime._series.table import DECIMALS
from series_data import (
    calendar_covariates,
    covariate_scaling,
    generated_series,
    read_series,
    write_csv,
)
from series_options import parse_arguments

from keras_attn import AttentionRNNCell, BahdanauAttention, RNNEncoder
from keras_attn.export import export_forecaster_onnx
from keras_attn.files import atomic_replace
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

args = parse_arguments(__doc__, sorted(HEADS))
try:
    for name in ("input.csv", "future.csv"):
        require_different_files(args.out / name, *args.csv or ())
except ValueError as error:
    raise SystemExit(f"error: {error}") from error
args.out.mkdir(parents=True, exist_ok=True)
keras.utils.set_random_seed(args.seed)

# 1. The data: series (N, time, D), and covariates (time, F) that are known in the future.
test_length = args.origins * args.horizon
scaling, covariate_scales = "std", None  # generated series have different levels
if args.csv is None:
    series = generated_series(args.series, args.length, args.season, args.seed)
    known_names, known, times = [], None, list(range(args.length))
else:
    try:
        data = read_series(
            args.csv,
            args.time_column,
            args.targets,
            args.known_covariates,
            args.horizon,
            dict(args.valid_range),
            args.insert_missing_rows,
            dict(args.fill),
            args.replace_rows,
            DELIMITERS[args.delimiter],
            DECIMALS[args.decimal],
        )
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    times, series = data.times, data.targets[None]
    calendar_names, calendar = calendar_covariates(times)
    known_names = [*calendar_names, *args.known_covariates]
    double = {*calendar_names} & {*args.known_covariates, *args.targets}
    if double:
        raise SystemExit(f"Expected other names than those of the calendar. Received: {double}.")
    known = np.concatenate([calendar, data.known], axis=-1) if known_names else None
num_series, length, num_targets = series.shape
shortest = args.window + 2 * args.horizon + test_length
if length < shortest:
    raise SystemExit(
        "Expected a series of at least window + (origins + 2) * horizon = "
        f"{shortest} time steps. Received: {length}."
    )
train_end = length - test_length
if args.csv is not None:
    # All windows are from one series, so that a fixed scale is possible. It keeps the level of a
    # window in the data.
    mean, deviation = np.nanmean(series[0, :train_end], 0), np.nanstd(series[0, :train_end], 0)
    scaling = (mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist())
    if args.known_covariates:
        covariate_scales = covariate_scaling(known[:train_end])


def windows(end, **arguments):
    """Windows of all series up to the time step `end`."""
    covariates = None if known is None else known[:end]
    sizes = args.window, args.horizon
    parts = [
        forecast_windows(each[:end], *sizes, covariates, covariates, **arguments) for each in series
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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
    encoder=encoder,
    horizon=args.horizon,
    num_past_covariates=len(known_names),
    num_future_covariates=len(known_names),
    lags=args.lags,
    scaling=scaling,
    past_covariate_scaling=covariate_scales,
    future_covariate_scaling=covariate_scales,
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
    forecaster, num_paths=args.paths, quantile_levels=levels, return_attention_scores=True
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
    shape = (num_series, test_length, num_targets)
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
# benchmarks/forecasting.py, ONNX file, and CSV files for the runtime: the last origin of the first
# series, and the time after its end.
columns = SeriesColumns(args.targets, known_names, known_names, args.time_column)
RunDirectory.create(args.out, "series", series=columns).save_model(model)
shown = len(actual) // 2
figure = plot_forecast(
    test["past_targets"][shown, :, 0],
    results["quantiles"][shown, :, 0],
    actual[shown, :, 0],
    results["attention_scores"][shown],
    levels,
    label=args.targets[0],
)
with atomic_replace(args.out / "forecast.png") as partial:
    figure.savefig(partial, dpi=120)
sizes = {name: getattr(args, name) for name in ("horizon", "origins", "season")}
with atomic_replace(args.out / "test.npz") as partial:
    np.savez(partial, series=series, median=median, targets=args.targets, **sizes)


def write_input(name, start, stop):
    """Writes a CSV file for the runtime: a window, and in the horizon only the covariates."""
    rows = np.full((stop - start, num_targets), np.nan)
    rows[: args.window] = series[0, start : start + args.window]
    if known_names:
        rows = np.concatenate([rows, known[start:stop]], axis=-1)
    write_csv(args.out / name, columns, times[start:stop], rows)


columns = [args.time_column, *args.targets, *known_names]
start, future_rows = length - args.window, args.horizon if known_names else 0
write_input("input.csv", start - args.horizon, length - args.horizon + future_rows)
if args.csv is not None and len(times) < length + args.horizon:
    print(
        f"future.csv was not written: it needs {args.horizon} rows after {times[length - 1]} with "
        f"{', '.join(args.known_covariates)}. Received: {len(times) - length} rows."
    )
elif args.csv is not None:
    write_input("future.csv", start, length + future_rows)
exported = export_forecaster_onnx(
    model,
    args.out / "forecaster.onnx",
    target_names=args.targets,
    past_covariate_names=known_names,
    future_covariate_names=known_names,
    time_column=args.time_column,
    parity_inputs={name: each[:2] for name, each in test.items()},
)
report["largest_onnx_difference"] = exported.largest_difference
with atomic_replace(args.out / "results.json") as partial:
    partial.write_text(json.dumps(report, indent=2, default=str))
print(f"largest difference between Keras and ONNX: {report['largest_onnx_difference']:.1e}")
