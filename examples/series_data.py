"""Series for examples/forecast_series.py: generated seasonal series, or series from CSV files."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from keras_attn_runtime import read_series_tables

from keras_attn.files import atomic_replace


def generated_series(number, length, season, seed):
    """Returns series `(number, length, 1)` with a level, a trend, a season and correlated noise.

    Levels differ by factors of up to 1000 between the series, so a model must scale them.
    """
    generator = np.random.default_rng(seed)
    time = np.arange(length)
    series = []
    for _ in range(number):
        level = 10 ** generator.uniform(0, 3)
        slope = generator.normal(0, 0.5) / length
        pattern = np.zeros(length)
        for harmonic in (1, 2, 3):
            angle = 2 * np.pi * (harmonic * time / season + generator.uniform())
            pattern += generator.normal(0, 0.25 / harmonic) * np.sin(angle)
        noise, spread = np.zeros(length), generator.uniform(0.02, 0.12)
        correlation = generator.uniform(0.0, 0.8)
        for step in range(1, length):
            noise[step] = correlation * noise[step - 1] + spread * generator.normal()
        series.append(level * (2 + slope * time + pattern + noise))
    return np.stack(series)[..., None].astype("float32")


class SeriesData(NamedTuple):
    """A series that is read from CSV files. Rows after the last target value are its future."""

    times: list  # of the past and the future: integers, dates or datetimes with equal steps
    targets: np.ndarray  # float32 (past, targets), with NaN for missing values
    known: np.ndarray  # float32 (past and future, covariates)


def read_series(
    paths,
    time_column,
    targets,
    known=(),
    horizon=0,
    valid_ranges=None,
    insert_missing_rows=False,
    fills=None,
    replace_rows=False,
    delimiter=",",
    decimal=".",
):
    """Reads a series from CSV files as `keras-attn-runtime forecast` does.

    The rows of all files are joined and sorted by time. Empty cells of targets and values outside
    of `valid_ranges` become NaN. Rows at the end without any target are the future. Without known
    covariates, the times of the future continue those of the past.

    Args:
        paths: List of paths.
        time_column: String, name of the column with the times.
        targets: List of strings, names of the columns to forecast.
        known: List of strings, names of the covariates that are known in the future.
        horizon: Int, largest number of rows of the future.
        valid_ranges: Dict from column names to pairs `(least, greatest)` of valid values. Columns
            that are not in the dict have no limits.
        insert_missing_rows: Bool, whether a row of empty cells is inserted for each missing time.
        fills: Dict from names of covariates to a number or "previous", which replace empty cells.
        replace_rows: Bool, whether a row of a later file replaces a row with the same time.
        delimiter: String, the character between cells.
        decimal: "." or ",", the decimal separator.

    Returns:
        `SeriesData`.

    Raises:
        ValueError: If a column is missing, a cell is not a number, a covariate has no value, there
            are no targets, two rows of a file have the same time, two files have rows with the same
            time and `replace_rows=False`, or times are missing and `insert_missing_rows=False`.
    """
    rows, names = {}, [*targets, *known]
    for path in paths:
        (table,) = read_series_tables(
            path, names, time_column, delimiter=delimiter, decimal=decimal
        )
        for time, value, line in zip(table.times, table.values, table.lines, strict=True):
            if time in rows:
                _require_new_time(time, rows[time][1:], (line, path), replace_rows)
            rows[time] = value, line, path
    try:
        times = sorted(rows)
    except TypeError as error:
        raise ValueError(f"Expected times of the same kind in all files ({error}).") from error
    values, lines, _ = (list(each) for each in zip(*(rows[time] for time in times), strict=True))
    values = np.array(values)
    for name, (least, most) in (valid_ranges or {}).items():
        column = values[:, names.index(name)]
        is_wrong = (column < least) | (column > most)
        column[is_wrong] = np.nan
        if is_wrong.any():
            print(f"{name}: {is_wrong.sum()} values outside of {least:g} to {most:g} are missing")
    table = replace(table, times=times, values=values, lines=lines)
    table = table.with_all_times(insert_missing_rows)
    has_target = ~np.isnan(table.values[:, : len(targets)]).all(axis=1)
    if not has_target.any():
        raise ValueError(f"Expected values of {', '.join(targets)}. Received: empty cells only.")
    length = int(np.flatnonzero(has_target)[-1]) + 1
    rows = length + horizon
    table = table.with_num_rows(min(rows, len(has_target)) if known else rows)
    num_future = len(table.values) - length
    table = table.with_filled_cells(fills or {}, num_future)
    table.require_numbers(known, 0, num_future)
    past, values = table.values[:length, : len(targets)], table.values[:, len(targets) :]
    return SeriesData(list(table.times), past, values)


def _require_new_time(time, first, second, replace_rows):
    """Raises an error for two rows with one time; `first` and `second` are lines and paths."""
    (first_line, first_path), (line, path) = first, second
    if path == first_path:
        raise ValueError(
            f"Expected each time once in {path}. Received: {time} in the lines {first_line} and "
            f"{line}. Keep one of the rows. If the file contains several series, write one of them "
            "to a file of its own."
        )
    if not replace_rows:
        raise ValueError(
            f"Expected each time once. Received: {time} in line {first_line} of {first_path} and "
            f"line {line} of {path}. Use --replace-rows if the files contain one series, and the "
            "rows of later files replace those of earlier files."
        )


def calendar_covariates(times, harmonics=2):
    """Returns names and values `(time, 2 * harmonics)` of yearly sines and cosines.

    Integers have no calendar: the result then has no columns.
    """
    if isinstance(times[0], int):
        return [], np.zeros((len(times), 0), "float32")
    days = np.array([time.timetuple().tm_yday - 1 for time in times])
    names, columns = [], []
    for harmonic in range(1, harmonics + 1):
        angle = 2 * np.pi * harmonic * days / 365.25
        names += [f"year_sin{harmonic}", f"year_cos{harmonic}"]
        columns += [np.sin(angle), np.cos(angle)]
    return names, np.stack(columns, axis=-1).astype("float32")


def covariate_scaling(known):
    """Returns shifts and scales that map each column to [-1, 1]; constant columns become 0."""
    least, most = known.min(axis=0), known.max(axis=0)
    scale = np.where(most > least, (most - least) / 2, 1.0)
    return ((least + most) / 2).tolist(), scale.tolist()


def write_csv(path: Path, names, times, values):
    """Writes a CSV file with a time column. Missing values are empty cells."""
    with atomic_replace(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for time, row in zip(times, values, strict=True):
            writer.writerow([time, *("" if np.isnan(each) else f"{each:.9g}" for each in row)])
