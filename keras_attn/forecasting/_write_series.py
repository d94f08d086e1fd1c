import csv
from collections.abc import Sequence
from os import PathLike

import numpy as np

from keras_attn._files.atomic_replace import atomic_replace
from keras_attn.forecasting._series import Series


def write_series(
    path: str | PathLike[str],
    series: Sequence[Series],
    targets: Sequence[str],
    time_column: str,
    series_column: str | None = None,
    known_covariates: Sequence[str] = (),
) -> None:
    """Writes series to a CSV file that `read_series` and `keras-attn-runtime forecast` read.

    Missing values are empty cells. In the future rows, the targets are empty.

    Args:
        path: Path of the file. An existing file is replaced when the new one is complete.
        series: List of `Series`.
        targets: List of strings, names of the targets.
        time_column: String, name of the column with the times.
        series_column: String, name of the column with the names of the series. Defaults to `None`:
            no column, for a single series.
        known_covariates: List of strings, names of the covariates. Defaults to `()`.

    Raises:
        ValueError: If there are several series and `series_column` is `None`.

    Example:

    ```python
    write_series("sales.csv", generate_series(number=3), ["sales"], "month", "shop")
    ```
    """
    if series_column is None and len(series) > 1:
        raise ValueError(
            f"Expected series_column for a file of {len(series)} series. Received: "
            "series_column=None. Pass the name of the column with their names."
        )
    start = [] if series_column is None else [series_column]
    with atomic_replace(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*start, time_column, *targets, *known_covariates])
        for each in series:
            rows = np.full((len(each.times), len(targets)), np.nan, "float32")
            rows[: len(each)] = each.targets
            covariates = each.covariates[:, : len(known_covariates)]
            for time, row in zip(each.times, np.concatenate([rows, covariates], 1), strict=True):
                name = [] if series_column is None else [each.name]
                cells = ["" if np.isnan(value) else f"{value:.9g}" for value in row]
                writer.writerow([*name, time, *cells])
