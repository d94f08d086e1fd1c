"""`keras-attn train forecast`: trains a forecaster on the series of CSV files."""

import dataclasses
import hashlib
import json
import math
from typing import Any

import keras
import numpy as np

from keras_attn import AttentionRNNCell, BahdanauAttention, RNNEncoder
from keras_attn.files import atomic_replace
from keras_attn.forecasting import (
    AutoregressiveForecaster,
    ForecastLoss,
    GaussianHead,
    PathSampler,
    PointHead,
    QuantileHead,
    Series,
    StudentTHead,
    choose_calendar,
    choose_horizon,
    choose_lags,
    choose_season,
    choose_window,
    covariate_scaling,
    forecast_model,
    forecast_training_model,
    generate_series,
    longer_seasons,
    read_series,
    score_forecasts,
    split_windows,
    write_series,
)
from keras_attn.training import (
    RunDirectory,
    SeriesColumns,
    ShowProgress,
    WarnOfProblems,
    make_strategy,
)
from keras_attn.visualize import plot_forecast
from keras_attn_commands.train import run_files
from keras_attn_commands.train.dry_run import print_estimate
from keras_attn_commands.train.forecast_settings import (
    MAY_CHANGE,
    ForecastSettings,
    parse_fill,
    parse_range,
)
from keras_attn_commands.train.memory import report_memory
from keras_attn_commands.train.run_training import make_schedule, run_training
from keras_attn_commands.train.settings import Warn

HEADS = {
    "gaussian": GaussianHead,
    "point": PointHead,
    "quantile": QuantileHead,
    "student_t": StudentTHead,
}
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the forecasts."""
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
DECIMALS = {"point": ".", "comma": ","}
LEAST_STEPS, MOST_STEPS, MOST_EPOCHS = 100, 1200, 15
"""Length of a training that is chosen by the data. Small data are learned by heart in more epochs,
and then the intervals are too narrow."""
MOST_WINDOWS = 100_000
"""Number of training windows above which the stride is chosen greater than 1."""
PICTURES = 6
"""Maximum number of series in the picture."""


def train(settings: ForecastSettings, command: str, warn: Warn) -> None:
    """Trains a forecaster, and writes the model and its scores to the run directory.

    Args:
        settings: `ForecastSettings`. Settings that are `None` are chosen by the data.
        command: String, the command line, for the results.
        warn: Function that shows the text of a warning.
    """
    paths = _data_paths(settings)
    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    series = _read_data(settings, paths)
    series, reasons = choose_settings(settings, series, warn)
    _check_columns(settings, series, warn)
    with run_files.locked(settings.run_dir):
        run_files.begin_training(settings, checksums, reasons, MAY_CHANGE)
        _write_data(settings, series)
        forecaster = _train_model(settings, series, warn)
        if forecaster is not None:
            _evaluate(settings, series, forecaster, command, warn)
            print(_next_commands(settings, series))


def _data_paths(settings):
    """Returns the paths of the CSV files."""
    if settings.data is None or not settings.data.is_dir():
        return [] if settings.data is None else [settings.data]
    paths = sorted(settings.data.glob("*.csv"))
    if not paths:
        raise ValueError(
            f"Expected files *.csv in --data {settings.data}. Received: none. Pass the path of a "
            "CSV file."
        )
    return paths


def _read_data(settings, paths):
    """Reads the series of the CSV files, or generates series."""
    if not paths:
        if settings.targets != ["value"] or settings.known_covariates:
            raise ValueError(
                "Expected --data FILE for --targets and --known-covariates. Received: no data. "
                "Pass the CSV file with these columns."
            )
        settings.time_column, settings.series_column = "month", "series"
        return generate_series(seed=settings.seed)
    series = read_series(
        paths,
        settings.targets,
        settings.time_column,
        settings.series_column,
        known_covariates=settings.known_covariates,
        valid_ranges=dict(map(parse_range, settings.valid_ranges)),
        insert_missing_rows=settings.insert_missing_rows,
        fills=dict(map(parse_fill, settings.fills)),
        replace_rows=settings.replace_rows,
        delimiter=DELIMITERS[settings.delimiter],
        decimal=DECIMALS[settings.decimal],
    )
    rows = sorted(map(len, series))
    first = min(each.times[0] for each in series)
    last = max(each.times[len(each) - 1] for each in series)
    sizes = f"{rows[0]:,}" if rows[0] == rows[-1] else f"{rows[0]:,} to {rows[-1]:,}"
    future = max(len(each.times) - len(each) for each in series)
    print(
        f"{len(series)} series of {sizes} rows, {first} to {last}"
        + (f", then {future:,} future rows" if future else "")
    )
    return series


def choose_settings(
    settings: ForecastSettings, series: list[Series], warn: Warn
) -> tuple[list[Series], dict[str, str]]:
    """Sets the settings that are `None`.

    Returns:
        Tuple of the series that are long enough, with calendar columns, and a dict from the names
        of the chosen settings to reasons.
    """
    reasons = {}

    def choose(name: str, value: Any, reason: str) -> Any:
        if getattr(settings, name) is None:
            setattr(settings, name, value)
            reasons[name] = reason
        return getattr(settings, name)

    longest = max(series, key=len)
    season = choose("season", choose_season(longest.times), "by the times")
    horizon = choose("horizon", choose_horizon(season), "a season, at most 48 rows; 6 without one")
    test_rows = settings.origins * horizon
    # A short series among long ones does not shorten the window of all.
    median_rows = int(np.median([len(each) for each in series]))
    num_rows = max(median_rows - test_rows, 3)
    window = choose(
        "window", choose_window(season, horizon, num_rows), "seasons, at most a third of the rows"
    )
    choose("lags", choose_lags(season, horizon, window), "seasons from the horizon to the window")
    calendar = choose(
        "calendar", choose_calendar(longest.times), "periods that the times cover twice"
    )
    shortest = window + (settings.origins + 2) * horizon
    kept = [each for each in series if len(each) >= shortest]
    rule = f"window + (origins + 2) * horizon = {shortest} rows"
    if not kept:
        raise ValueError(
            f"Expected series of at least {rule}. Received: at most {len(longest)} rows. Use a "
            "smaller --window, --horizon or --origins."
        )
    if len(kept) < len(series):
        names = [each.name for each in series if len(each) < shortest]
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        warn(
            f"{len(names)} of {len(series)} series have less than {rule} and are left out: {shown}."
        )
    windows = sum(len(each) - shortest + 1 for each in kept)
    stride = choose("stride", -(-windows // MOST_WINDOWS), f"{windows:,} windows")
    windows = -(-windows // stride)
    batch_size = choose("batch_size", 128 if windows > 4000 else 32, f"{windows:,} windows")
    steps = -(-windows // batch_size)
    epochs = max(min(MOST_STEPS // steps, MOST_EPOCHS), -(-LEAST_STEPS // steps), 3)
    choose("epochs", epochs, f"{steps:,} steps in an epoch")
    return [each.with_calendar(calendar) for each in kept], reasons


def _check_columns(settings, series, warn):
    """Checks the names of all columns, and warns if the future of the covariates is unknown."""
    columns = [*settings.targets, *settings.calendar, *settings.known_covariates]
    if len(set(columns)) < len(columns):
        raise ValueError(
            f"Expected each column once. Received: {', '.join(columns)}. Rename the columns, or "
            "remove them from --calendar."
        )
    rows = min(len(each.times) - len(each) for each in series)
    if settings.known_covariates and rows < settings.horizon:
        warn(
            f"The data have {rows} rows after the last target, and a forecast of the future needs "
            f"--horizon {settings.horizon} with {', '.join(settings.known_covariates)}. The "
            "training and the test do not need them."
        )


def _write_data(settings, series):
    """Writes the joined series, which `keras-attn-runtime forecast` reads."""
    folder = settings.run_dir / "data"
    folder.mkdir(exist_ok=True)
    skipped = len(settings.calendar)
    written = []
    for each in series:
        rows = len(each) + (settings.horizon if settings.known_covariates else 0)
        covariates = each.covariates[:rows, skipped:]
        written.append(dataclasses.replace(each, times=each.times[:rows], covariates=covariates))
    write_series(
        folder / "series.csv",
        written,
        settings.targets,
        settings.time_column,
        settings.series_column,
        settings.known_covariates,
    )


def _train_model(settings, series, warn):
    """Trains the forecaster, or continues its training. Returns `None` after a dry run."""
    train, valid, _ = split_windows(
        series, settings.window, settings.horizon, settings.origins, settings.stride
    )
    keras.utils.set_random_seed(settings.seed)
    with make_strategy(settings.strategy).scope():
        forecaster = _make_forecaster(settings, series)
        trainer: Any = forecast_training_model(forecaster, settings.window)
        windows = len(train["past_targets"])
        steps = -(-windows // settings.batch_size)
        total = settings.epochs * steps
        schedule = make_schedule(settings.learning_rate, total, max(1, total // 10))
        trainer.compile(
            keras.optimizers.Adam(schedule, clipnorm=1.0),
            ForecastLoss(forecaster.head),
            jit_compile=keras.backend.backend() == "jax",  # which is slow without compilation
        )
    print(f"{trainer.count_params():,} weights, {windows:,} windows, {steps:,} steps in an epoch")
    report_memory(trainer, 0, "fewer --units", warn)
    if settings.dry_run:
        order = np.random.default_rng(settings.seed).permutation(windows)
        rows = np.array_split(order, steps)
        batches = (
            ({name: each[row] for name, each in train.items()}, train["future_targets"][row])
            for row in rows
        )
        validation_steps = -(-len(valid["past_targets"]) // settings.batch_size)
        print_estimate(trainer, batches, steps, validation_steps, settings.epochs)
        return None
    best = keras.callbacks.EarlyStopping(
        "val_loss", patience=settings.patience or settings.epochs, restore_best_weights=True
    )
    run_training(
        settings,
        trainer,
        train,
        [best, WarnOfProblems(warn=warn)],
        ShowProgress(windows / steps, "windows"),
        y=train["future_targets"],
        batch_size=settings.batch_size,
        validation_data=(valid, valid["future_targets"]),
        on_mismatch="warn",  # the schedule depends on the number of epochs
    )
    return forecaster


def _make_forecaster(settings, series):
    """Creates the forecaster, with the scaling of the training data."""
    test_rows = settings.origins * settings.horizon
    scaling: Any = "std"  # of each window: series have different levels
    if len(series) == 1:
        # All windows are from one series: fixed numbers keep the level of a window in the data.
        targets = series[0].targets[:-test_rows]
        mean, deviation = np.nanmean(targets, axis=0), np.nanstd(targets, axis=0)
        scaling = (mean.tolist(), np.where(deviation > 0, deviation, 1.0).tolist())
    count = series[0].covariates.shape[1]
    known = [each.covariates[: len(each) - test_rows] for each in series]
    covariates = covariate_scaling(np.concatenate(known)) if count else None
    units = settings.units
    encoder = RNNEncoder(keras.layers.GRUCell(units), dropout=settings.dropout, seed=settings.seed)
    cell = AttentionRNNCell(
        keras.layers.GRUCell(units), BahdanauAttention(units), attention_units=units
    )
    return AutoregressiveForecaster(
        cell,
        HEADS[settings.head](len(settings.targets), name="head"),
        encoder=encoder,
        horizon=settings.horizon,
        num_past_covariates=count,
        num_future_covariates=count,
        lags=settings.lags,
        scaling=scaling,
        past_covariate_scaling=covariates,
        future_covariate_scaling=covariates,
        dropout=settings.dropout,
        sampling_probability=settings.sampling_probability,
        seed=settings.seed,
    )


def _evaluate(settings, series, forecaster, command, warn):
    """Forecasts the test, and writes the model, the scores and the pictures."""
    run_dir = settings.run_dir
    sampler = PathSampler(
        forecaster, num_paths=settings.paths, quantile_levels=LEVELS, return_attention_scores=True
    )
    model: Any = forecast_model(sampler, settings.window)
    names = [*settings.calendar, *settings.known_covariates]
    columns = SeriesColumns(
        settings.targets,
        names,
        names,
        settings.time_column,
        settings.calendar,
        settings.series_column,
    )
    run = RunDirectory.create(run_dir, "series", series=columns)
    run.save_model(model)
    _, _, test = split_windows(series, settings.window, settings.horizon, settings.origins)
    actual = test.pop("future_targets")
    test["seeds"] = np.arange(len(actual), dtype="int32")
    results = model.predict(test, batch_size=64, verbose=0)
    seasons = _longer_seasons(settings, series)
    scores = score_forecasts(
        series,
        results,
        settings.targets,
        settings.origins,
        settings.season,
        LEVELS,
        seasons,
    )
    print(_score_table(settings, series, scores, seasons))
    content = {
        "targets": _finite(scores),
        "per_series": _scores_of_series(settings, series, results, seasons)
        if len(series) > 1
        else {},
        "test_points": int((~np.isnan(actual)).sum()),
        "series": len(series),
        "command": command,
    }
    with atomic_replace(run_dir / "results.json") as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    _write_test(settings, series, results)
    written = [str(run.model_path), "results.json", "data/series.csv"]
    try:
        written += _write_pictures(settings, series, test, results, actual)
    except ImportError as error:  # Matplotlib
        warn(f"No picture was drawn. {error}")
    print(f"Wrote {', '.join(written)}")


def _scores_of_series(settings, series, results, seasons):
    """Returns the scores of each of several series, by its name and the targets."""
    origins = settings.origins
    scores = {}
    for index, each in enumerate(series):
        rows = slice(index * origins, (index + 1) * origins)
        of_series = {name: results[name][rows] for name in ("quantiles", "paths")}
        found = score_forecasts(
            [each], of_series, settings.targets, origins, settings.season, LEVELS, seasons
        )
        scores[each.name or str(index + 1)] = _finite(found)
    return scores


def _finite(scores):
    """Returns scores with `None` for NaN, which JSON lacks."""
    return {
        target: {name: each if math.isfinite(each) else None for name, each in row.items()}
        for target, row in scores.items()
    }


def _longer_seasons(settings, series):
    """Returns further seasons for naive forecasts, before the test of the shortest series."""
    shortest = min(series, key=len)
    rows = len(shortest) - settings.origins * settings.horizon
    return longer_seasons(shortest.times[:rows], settings.season)


def _score_table(settings, series, scores, seasons):
    """Returns a table of the most important scores; `seasons` are the longer ones."""
    naive = [f"{each:,} rows earlier" for each in (settings.season, *seasons) if each > 1]
    longest = max(series, key=len)
    end = len(longest)
    first = longest.times[end - settings.origins * settings.horizon]
    lines = [
        f"test, {first} to {longest.times[end - 1]}: MASE (of naive forecasts: "
        f"{', '.join([*naive, 'the last value'])}), mean absolute error, share in the 90 % interval"
    ]
    names = ["mase_seasonal_naive"] if settings.season > 1 else []
    names += [*(f"mase_naive_{each}" for each in seasons), "mase_naive"]
    for target, row in scores.items():
        lines.append(
            f"  {target}: {row['mase']:.2f} ({', '.join(f'{row[name]:.2f}' for name in names)}), "
            f"{row['mean_absolute_error']:.4g}, {100 * row['coverage']:.0f} %"
        )
    return "\n".join(lines)


def _write_test(settings, series, results):
    """Writes the data that benchmarks/forecasting.py compares with other forecasts."""
    length = max(map(len, series))
    values = np.full((len(series), length, len(settings.targets)), np.nan, "float32")
    for row, each in enumerate(series):
        values[row, length - len(each) :] = each.targets
    sizes = {name: getattr(settings, name) for name in ("horizon", "origins", "season")}
    median = results["quantiles"][..., len(LEVELS) // 2]
    with atomic_replace(settings.run_dir / "test.npz") as partial, open(partial, "wb") as file:
        np.savez(file, series=values, median=median, targets=settings.targets, **sizes)


def _write_pictures(settings, series, test, results, actual):
    """Plots the last forecast of the first series; returns the names of the files."""
    names = []
    for path in settings.run_dir.glob("forecast-*.png"):  # of an earlier training
        path.unlink()
    for index, each in enumerate(series[:PICTURES]):
        row = (index + 1) * settings.origins - 1
        end = len(each)
        figure = plot_forecast(
            test["past_targets"][row],
            results["quantiles"][row],
            actual[row],
            results["attention_scores"][row],
            LEVELS,
            title=each.name or None,
            label=settings.targets,
            times=each.times[end - settings.window - settings.horizon : end],
        )
        names.append(f"forecast-{index + 1}.png" if index else "forecast.png")
        with atomic_replace(settings.run_dir / names[-1]) as partial:
            figure.savefig(partial, format="png", dpi=120)
    return names


def _next_commands(settings, series):
    """Returns the commands that use the model."""
    run_dir, export = settings.run_dir, run_files.export_command()
    known = ", ".join(settings.known_covariates or ())
    needs_rows = known and any(len(each.times) - len(each) < settings.horizon for each in series)
    rows = (
        f"  # append {settings.horizon} future rows of each series to series.csv, with {known}, "
        "then:\n"
        if needs_rows
        else ""
    )
    return (
        f"Next:\n  {export} onnx {run_dir} forecaster.onnx\n{rows}  keras-attn-runtime "
        f"forecast forecaster.onnx --input {run_dir}/data/series.csv"
    )
