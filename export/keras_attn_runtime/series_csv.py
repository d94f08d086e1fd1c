"""Reads series from CSV files, and writes forecasts to CSV files."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from keras_attn_runtime.array_types import Arrays, Floats
from keras_attn_runtime.file_format import SeriesSettings
from keras_attn_runtime.series_times import Time, next_times, parse_time, time_step

MISSING = ("", "nan", "na", "null")
"""Contents of cells without a number, in lower case."""


@dataclass(frozen=True)
class CsvColumns:
    """Columns of a CSV file that the model does not name.

    Args:
        time: string, column of the times, or `None`.
        series: string, column that names the series of each row, or `None` for a single series.
    """

    time: str | None = None
    series: str | None = None


@dataclass(frozen=True)
class CsvSeries:
    """One series of a CSV file.

    Attributes:
        name: string, the name of the series, or "" for a single series.
        arrays: dict from the name of each input of the model to an array `(time, columns)`.
        times: list of the times of the forecast.
    """

    name: str
    arrays: dict[str, Floats]
    times: Sequence[Time]


Row = tuple[int, Mapping[str, str | None]]
"""Number of the line in the file, and the cells by the names of their columns."""


def read_series(file: TextIO, settings: SeriesSettings, columns: CsvColumns) -> list[CsvSeries]:
    """Reads all series of a CSV file.

    The rows of a series are its consecutive time steps. If the model has future covariates, the
    last `horizon` rows are the future, and their target cells are empty. Empty target cells in the
    past are missing values.

    Args:
        file: the open file.
        settings: the settings of the model.
        columns: names of the columns of the times and the series.

    Returns:
        List of `CsvSeries`.

    Raises:
        ValueError: if a column is missing, a cell is not a number, the times of a series do not
            have equal steps, or a series is shorter than the window.
    """
    reader = csv.DictReader(file)
    names = list(reader.fieldnames or ())
    needed = [*settings.targets, *settings.past_covariates, *settings.future_covariates]
    needed += [each for each in (columns.time, columns.series) if each is not None]
    missing = [name for name in dict.fromkeys(needed) if name not in names]
    if missing:
        raise ValueError(
            f"Expected the columns {missing} in the file. Received: {names}. The first line has "
            "the names of the columns, separated by commas."
        )
    groups: dict[str, list[Row]] = {}
    for row in reader:
        name = "" if columns.series is None else row[columns.series] or ""
        groups.setdefault(name, []).append((reader.line_num, row))
    if not groups:
        raise ValueError("Expected rows after the names of the columns. Received: none.")
    return [_series(name, rows, settings, columns) for name, rows in groups.items()]


def _series(
    name: str, rows: Sequence[Row], settings: SeriesSettings, columns: CsvColumns
) -> CsvSeries:
    where = f" of the series {name!r}" if name else ""
    horizon = settings.horizon if settings.future_covariates else 0
    window = settings.window or max(settings.min_window, len(rows) - horizon)
    if len(rows) < window + horizon:
        future = f", and horizon={horizon} rows with the future covariates" if horizon else ""
        raise ValueError(
            f"Expected at least window={window} rows of the past{where}{future}. Received: "
            f"{len(rows)} rows. Add earlier rows, with empty cells for missing targets."
        )
    times = _times(rows, settings.horizon, horizon, columns)
    end = len(rows) - horizon
    past, future = rows[end - window : end], rows[end:]
    for line, row in future:
        known = [target for target in settings.targets if not _is_missing(row[target])]
        if known:
            raise ValueError(
                f"Expected empty cells of the targets in the last horizon={horizon} rows{where}, "
                f"which have the future covariates. Received: {known[0]}={row[known[0]]!r} in line "
                f"{line}. Append rows with the future covariates."
            )
    targets = _numbers(past, settings.targets, can_miss=True)
    if np.isnan(targets).all():
        raise ValueError(
            f"Expected at least one value of the targets in the last window={window} rows{where}. "
            "Received: empty cells only."
        )
    arrays = {"past_targets": targets}
    if settings.past_covariates:
        arrays["past_covariates"] = _numbers(past, settings.past_covariates)
    if settings.future_covariates:
        arrays["future_covariates"] = _numbers(future, settings.future_covariates)
    return CsvSeries(name, arrays, times)


def _times(
    rows: Sequence[Row], horizon: int, future_rows: int, columns: CsvColumns
) -> Sequence[Time]:
    """Returns the times of the forecast; raises an error for times without equal steps."""
    if columns.time is None:
        return range(1, horizon + 1)
    parsed = [(line, parse_time(row[columns.time] or "", line)) for line, row in rows]
    step = time_step(parsed)
    if future_rows:
        return [time for _, time in parsed[-future_rows:]]
    return next_times(parsed[-1][1], step, horizon)


def _numbers(rows: Sequence[Row], names: Sequence[str], can_miss: bool = False) -> Floats:
    """Returns the cells of some columns as an array `(time, columns)`."""
    values = [[_number(row[name], name, line, can_miss) for name in names] for line, row in rows]
    return np.array(values, np.float32)


def _number(cell: str | None, name: str, line: int, can_miss: bool) -> float:
    if _is_missing(cell):
        if can_miss:
            return math.nan
        raise ValueError(
            f"Expected a number in column {name!r}, line {line}. Received: an empty cell. Only "
            "targets may be missing; fill in the covariate."
        )
    try:
        number = float(cell or "")
    except ValueError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(
            f"Expected a number in column {name!r}, line {line}. Received: {cell!r}. Leave the "
            "cell of a missing target empty."
        )
    return number


def _is_missing(cell: str | None) -> bool:
    return cell is None or cell.strip().lower() in MISSING


def write_forecasts(
    file: TextIO,
    series: Iterable[CsvSeries],
    results: Arrays,
    settings: SeriesSettings,
    columns: CsvColumns,
) -> None:
    """Writes forecasts: one row for each series and time step.

    The first columns are the name of the series (if the input has this column) and the time (or
    `step`, the number of the time step). Each target has columns for its mean and its quantiles,
    such as `sales_mean` and `sales_q0.05`.

    Args:
        file: the open file.
        series: the series that were read.
        results: result of a `Forecaster` for these series, in the same order.
        settings: the settings of the model.
        columns: names of the columns of the times and the series.
    """
    writer = csv.writer(file, lineterminator="\n")
    header = [] if columns.series is None else [columns.series]
    header.append("step" if columns.time is None else columns.time)
    for target in settings.targets:
        header += [f"{target}_mean", *(f"{target}_q{level:g}" for level in settings.quantiles)]
    writer.writerow(header)
    for index, each in enumerate(series):
        for step, time in enumerate(each.times):
            start = [] if columns.series is None else [each.name]
            writer.writerow([*start, time, *_cells(results, index, step)])


def _cells(results: Arrays, index: int, step: int) -> Iterator[str]:
    means, quantiles = results["mean"][index, step], results["quantiles"][index, step]
    for mean, levels in zip(means, quantiles, strict=True):
        yield f"{float(mean):.7g}"
        yield from (f"{float(level):.7g}" for level in levels)
