"""Reads series from CSV files, and writes forecasts to CSV files."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TextIO

import numpy as np

from keras_attn_runtime._array_types import Arrays, Floats
from keras_attn_runtime._file_format import SeriesSettings
from keras_attn_runtime._series.csv_rows import Source
from keras_attn_runtime._series.table import SeriesTable, read_series_tables
from keras_attn_runtime._series.times import Time


@dataclass(frozen=True)
class CsvOptions:
    """Options for reading series from a CSV file.

    Args:
        time: string, time column, or `None`.
        series: string, column that names the series of each row, or `None` for a single series.
        insert_missing_rows: bool, whether times without a row become rows with empty cells.
            Default: `False`, an error.
        delimiter: string, the character between cells. Default: ",".
        decimal: "." or ",", the decimal separator. Default: ".".
        fills: dict from covariate names to the content for empty cells, see
            `SeriesTable.with_filled_cells`. Default: none.
    """

    time: str | None = None
    series: str | None = None
    insert_missing_rows: bool = False
    delimiter: str = ","
    decimal: str = "."
    fills: Mapping[str, float | str] = field(default_factory=dict[str, float | str])


def csv_keys(
    settings: SeriesSettings, time_column: str | None, series_column: str | None
) -> tuple[str | None, str | None]:
    """Returns the time column and the series column: the given ones, or those of the file.

    Args:
        settings: the model's settings.
        time_column: string, or `None` for the column that the model's file names.
        series_column: the same, or "" if all rows are one series.
    """
    time = settings.time_column if time_column is None else time_column
    series = settings.series_column if series_column is None else series_column
    return time, series or None


@dataclass(frozen=True)
class CsvSeries:
    """One series in a CSV file.

    Attributes:
        name: string, the series' name, or "" for a single series.
        arrays: dict from model input names to arrays `(time, columns)`.
        times: list, forecast times.
    """

    name: str
    arrays: dict[str, Floats]
    times: Sequence[Time]


def read_series(file: Source, settings: SeriesSettings, options: CsvOptions) -> list[CsvSeries]:
    """Reads all series from a CSV file.

    A series' rows are its consecutive time steps. If the model takes future covariates, the last
    `horizon` rows are the future, and their target cells are empty. Empty target cells in the past
    are missing values. Calendar columns are computed from the times, in the future too; the file
    does not need them.

    Args:
        file: path or open file.
        settings: the model's settings.
        options: names of the other columns, file form, and treatment of missing rows and cells.

    Returns:
        List of `CsvSeries`.

    Raises:
        ValueError: if a column is missing, a cell is not a number, a time does not follow the
            previous one, a covariate is missing, or a series is shorter than the window.
    """
    covariates = settings.without_calendar(settings.covariates)
    unknown = [name for name in options.fills if name not in covariates]
    if unknown:
        raise ValueError(
            f"Expected --fill for covariates of the model, {covariates}. Received: "
            f"{', '.join(unknown)}. Empty cells of targets are masked."
        )
    names = [*settings.targets, *covariates]
    tables = read_series_tables(
        file,
        names,
        options.time,
        options.series,
        delimiter=options.delimiter,
        decimal=options.decimal,
    )
    return [_series(table, settings, options) for table in tables]


def _series(table: SeriesTable, settings: SeriesSettings, options: CsvOptions) -> CsvSeries:
    table = table.with_all_times(options.insert_missing_rows)
    known = settings.without_calendar(settings.future_covariates)
    horizon = settings.horizon if known else 0
    rows = len(table.values)
    window = settings.window or max(settings.min_window, rows - horizon)
    if rows < window + horizon:
        future = f", and horizon={horizon} rows with the future covariates" if horizon else ""
        raise ValueError(
            f"Expected at least window={window} rows of the past{table.where}{future}. Received: "
            f"{rows} rows. Add earlier rows; the cells of missing targets are empty."
        )
    table = table.with_filled_cells(options.fills, horizon)
    end = rows - horizon
    targets = _columns(table, settings.targets)
    future_targets = np.argwhere(~np.isnan(targets[end:])).tolist()
    if future_targets:
        row, column = future_targets[0]
        raise ValueError(
            f"Expected empty cells of the targets in the last horizon={horizon} rows{table.where}, "
            f"which have the future covariates. Received: {settings.targets[column]}="
            f"{targets[end + row, column]:g} in {table.place(end + row)}. Append {horizon} rows of "
            f"the future with {', '.join(known)}."
        )
    targets = targets[end - window : end]
    if np.isnan(targets).all():
        raise ValueError(
            f"Expected at least one value of the targets in the last window={window} rows"
            f"{table.where}. Received: {targets.size} empty cells."
        )
    past = replace(table, values=table.values[:end])
    past.require_numbers(settings.without_calendar(settings.past_covariates), end - window)
    table.require_numbers(known, end, horizon)
    table = table.with_num_rows(end + settings.horizon).with_calendar(settings.calendar_columns)
    arrays = {"past_targets": targets}
    if settings.past_covariates:
        arrays["past_covariates"] = _columns(table, settings.past_covariates)[end - window : end]
    if settings.future_covariates:
        arrays["future_covariates"] = _columns(table, settings.future_covariates)[end:]
    steps = range(1, settings.horizon + 1)
    return CsvSeries(table.name, arrays, steps if table.times is None else table.times[end:])


def _columns(table: SeriesTable, names: Sequence[str]) -> Floats:
    """Returns some columns as an array `(rows, columns)`."""
    return np.stack([table.column(name) for name in names], axis=-1)


def stack_series(series: Sequence[CsvSeries]) -> dict[str, Floats]:
    """Returns a dict from model input names to arrays `(series, time, columns)`.

    Raises:
        ValueError: if the series have different numbers of rows.
    """
    lengths = {len(item.arrays["past_targets"]) for item in series}
    if len(lengths) > 1:
        raise ValueError(
            f"Expected series with the same number of rows. Received: {min(lengths)} to "
            f"{max(lengths)} rows. Insert rows with empty targets at the beginning of the shorter "
            "series."
        )
    return {name: np.stack([item.arrays[name] for item in series]) for name in series[0].arrays}


def write_forecasts(
    file: TextIO,
    series: Iterable[CsvSeries],
    results: Arrays,
    settings: SeriesSettings,
    options: CsvOptions,
) -> None:
    """Writes forecasts: one row for each series and time step.

    The first columns are the series name (if the input contains this column) and the time (or
    `step`, the number of the time step). For each target, there are columns for mean and quantiles,
    such as `sales_mean` and `sales_q0.05`.

    Args:
        file: the open file.
        series: the input series.
        results: result from a `Forecaster` for these series, in the same order.
        settings: the model's settings.
        options: names of the other columns.

    Raises:
        ValueError: if a forecast is not finite. Nothing is written.
    """
    series = list(series)
    _require_finite(series, results, settings)
    writer = csv.writer(file, lineterminator="\n")
    header = [] if options.series is None else [options.series]
    header.append("step" if options.time is None else options.time)
    for target in settings.targets:
        header += [
            f"{target}_mean",
            *(f"{target}_q{level:g}" for level in settings.quantile_levels),
        ]
    writer.writerow(header)
    for index, item in enumerate(series):
        for step, time in enumerate(item.times):
            start = [] if options.series is None else [item.name]
            writer.writerow([*start, time, *_cells(results, index, step)])


def _require_finite(series: Sequence[CsvSeries], results: Arrays, settings: SeriesSettings) -> None:
    for name in ("mean", "quantiles"):
        places = np.argwhere(~np.isfinite(results[name])).tolist()
        if places:
            index, step, target = places[0][:3]
            item = series[index]
            where = f" of the series {item.name!r}" if item.name else ""
            raise ValueError(
                f"Expected finite forecasts. Received: {settings.targets[target]}="
                f"{results[name][tuple(places[0])]} at {item.times[step]}{where}. The largest "
                f"value of the past is {np.nanmax(np.abs(item.arrays['past_targets'])):g}; use a "
                "larger unit, such as millions, or train the model again."
            )


def _cells(results: Arrays, index: int, step: int) -> Iterator[str]:
    means, quantiles = results["mean"][index, step], results["quantiles"][index, step]
    for mean, levels in zip(means, quantiles, strict=True):
        yield f"{float(mean):.7g}"
        yield from (f"{float(level):.7g}" for level in levels)
