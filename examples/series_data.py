"""Series for examples/forecast_series.py: generated seasonal series, or series from CSV files."""

import csv
import datetime
from pathlib import Path

import numpy as np


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


def read_series(paths, time_column, columns, valid_ranges):
    """Reads a series with one value of each column per day from CSV files.

    Empty cells, values outside of `valid_ranges` and days without a row become NaN. If several rows
    have the same date, the last one is used.

    Args:
        paths: List of paths; the rows of all files are joined and sorted by time.
        time_column: String, name of the column with ISO dates.
        columns: List of strings, names of the columns to read.
        valid_ranges: Dict from column names to pairs `(least, greatest)` of valid values. Columns
            that are not in the dict have no limits.

    Returns:
        Tuple of the list of dates and an array `(time, columns)` with NaN for missing values.
    """
    rows, dropped = {}, dict.fromkeys(columns, 0)
    for path in paths:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = {time_column, *columns} - set(reader.fieldnames or ())
            if missing:
                raise SystemExit(
                    f"Expected the columns {sorted(missing)} in {path}. Received: "
                    f"{reader.fieldnames}."
                )
            for row in reader:
                values = []
                for name in columns:
                    value = float(row[name]) if row[name].strip() else np.nan
                    least, most = valid_ranges.get(name, (-np.inf, np.inf))
                    if not np.isnan(value) and not least <= value <= most:
                        dropped[name] += 1
                        value = np.nan
                    values.append(value)
                rows[datetime.date.fromisoformat(row[time_column])] = values
    first, last = min(rows), max(rows)
    dates = [first + datetime.timedelta(day) for day in range((last - first).days + 1)]
    nothing = [np.nan] * len(columns)
    for name, count in dropped.items():
        if count:
            print(f"{name}: {count} values outside of {valid_ranges[name]} count as missing")
    return dates, np.array([rows.get(date, nothing) for date in dates], "float32")


def calendar_covariates(dates, harmonics=2):
    """Returns names and values `(time, 2 * harmonics)` of yearly sines and cosines."""
    days = np.array([date.timetuple().tm_yday - 1 for date in dates])
    names, columns = [], []
    for harmonic in range(1, harmonics + 1):
        angle = 2 * np.pi * harmonic * days / 365.25
        names += [f"year_sin{harmonic}", f"year_cos{harmonic}"]
        columns += [np.sin(angle), np.cos(angle)]
    return names, np.stack(columns, axis=-1).astype("float32")


def write_csv(path: Path, names, times, values):
    """Writes a CSV file with a time column. Missing values are empty cells."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for time, row in zip(times, values, strict=True):
            writer.writerow([time, *("" if np.isnan(each) else f"{each:.6g}" for each in row)])
