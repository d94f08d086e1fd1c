import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from keras_attn.forecasting._import_runtime import import_runtime
from keras_attn.forecasting._series import Series
from keras_attn_checks.message import Argument, Message


def read_series(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    targets: Sequence[str],
    time_column: str,
    series_column: str | None = None,
    *,
    known_covariates: Sequence[str] = (),
    horizon: int | None = None,
    valid_ranges: Mapping[str, tuple[float, float]] | None = None,
    insert_missing_rows: bool = False,
    fills: Mapping[str, float | str] | None = None,
    replace_rows: bool = False,
    delimiter: str = ",",
    decimal: str = ".",
) -> list[Series]:
    """Reads series from CSV files as `keras-attn-runtime forecast` does.

    A file is wide (a column for each target), long (a column names the series of each row), or
    both. The rows of all files are joined and sorted by time. Empty cells of targets and values
    outside of `valid_ranges` become NaN. The rows at the end of a series without any target are its
    future. docs/forecasting-csv.md lists the accepted forms of files and times.

    Args:
        paths: Path, or list of paths, of files with the same columns.
        targets: List of strings, the columns to forecast.
        time_column: String, the column with the times, which have equal steps.
        series_column: String, the column with the name of each row's series. Defaults to `None`:
            the files contain one series.
        known_covariates: List of strings, columns that are known in the future. Defaults to `()`.
        horizon: Int, maximum number of future rows. Without known covariates, the times continue
            those of the past by this number. Defaults to `None`: all rows without targets.
        valid_ranges: Dict from column names to pairs `(least, most)`. Values outside of the range
            count as missing. Defaults to `None`: no limits.
        insert_missing_rows: Bool, whether a row of empty cells is inserted for each missing time.
            Defaults to `False`: a missing time is an error.
        fills: Dict from names of covariates to the content of their empty cells: a number, or
            `"previous"` for the value of the row before. Defaults to `None`: an empty cell is an
            error.
        replace_rows: Bool, whether a row of a later file replaces a row of the same series with the
            same time. Defaults to `False`: equal times are an error.
        delimiter: String, the character between cells. Defaults to `","`.
        decimal: String, `"."` or `","`, the decimal separator. Defaults to `"."`.

    Returns:
        List of `Series`, in the order of their first rows.

    Raises:
        ValueError: If a column is missing, a cell is not a number, a covariate has no value, a
            series has no targets, two rows of a series have the same time, or times are missing and
            `insert_missing_rows=False`.
        ImportError: If `keras_attn_runtime` is not installed.

    Example:

    >>> import io
    >>> from keras_attn.forecasting import read_series
    >>> file = io.StringIO("shop,day,sold\\nx,1,5\\nx,2,6\\ny,1,50\\ny,2,\\ny,3,70\\n")
    >>> series = read_series([file], ["sold"], "day", "shop")
    >>> [(each.name, each.targets[:, 0].tolist()) for each in series]
    [('x', [5.0, 6.0]), ('y', [50.0, nan, 70.0])]
    """
    runtime = import_runtime()
    names = [*targets, *known_covariates]
    keys = [time_column, *([] if series_column is None else [series_column])]
    if len({*names, *keys}) < len(names) + len(keys):
        raise ValueError(
            "Expected each column once: targets, known covariates, times and series. Received: "
            f"{[*names, *keys]}. Remove the repetition."
        )
    _require_columns("valid_ranges", valid_ranges or {}, names)
    _require_columns("fills", fills or {}, known_covariates)
    rows: dict[str, dict[Any, tuple[np.ndarray, int, Any]]] = {}  # by series and time
    tables = {}
    for path in paths if isinstance(paths, Sequence) and not isinstance(paths, str) else [paths]:
        for table in runtime.read_series_tables(
            path, names, time_column, series_column, delimiter=delimiter, decimal=decimal
        ):
            tables.setdefault(table.name, table)
            _add_rows(rows.setdefault(table.name, {}), table, path, replace_rows, series_column)
    joined = [_joined_table(tables[name], rows[name]) for name in tables]
    for name, limits in (valid_ranges or {}).items():
        _remove_invalid_values(joined, name, *limits)
    return [
        _make_series(table, len(targets), horizon, insert_missing_rows, fills or {})
        for table in joined
    ]


def _require_columns(argument, received, allowed):
    unknown = [name for name in received if name not in allowed]
    if unknown:
        raise ValueError(
            Message(
                "Expected ",
                Argument(argument),
                f" of the columns {list(allowed)}. Received: {', '.join(unknown)}. Empty cells of "
                "targets are missing values, which are masked.",
            )
        )


def _add_rows(rows, table, path, replace_rows, series_column):
    """Adds the rows of a table to a dict from times to values, line and path."""
    for time, value, line in zip(table.times, table.values, table.lines, strict=True):
        if time in rows:
            _, first_line, first_path = rows[time]
            if path is first_path:
                advice = ["Keep one of the rows."]
                if series_column is None:
                    name = Argument("series_column")
                    advice = [*advice, " If the file contains several series, use ", name, "."]
                raise ValueError(
                    Message(
                        f"Expected each time once in {path}. Received: {time}{table.where} in the "
                        f"lines {first_line} and {line}. ",
                        *advice,
                    )
                )
            if not replace_rows:
                raise ValueError(
                    Message(
                        f"Expected each time once. Received: {time}{table.where} in line "
                        f"{first_line} of {first_path} and line {line} of {path}. Use ",
                        Argument("replace_rows"),
                        " to replace the rows of earlier files by those of later files.",
                    )
                )
        rows[time] = value, line, path


def _joined_table(table, rows):
    """Returns a table with all rows of a series, sorted by time."""
    try:
        times = sorted(rows)
    except TypeError as error:
        raise ValueError(f"Expected times of the same kind in all files ({error}).") from error
    values, lines, _ = (list(each) for each in zip(*(rows[time] for time in times), strict=True))
    return dataclasses.replace(table, times=times, values=np.array(values), lines=lines)


def _remove_invalid_values(tables, name, least, most):
    """Replaces the values outside of a range by NaN, and prints their number."""
    number = 0
    for table in tables:
        column = table.column(name)  # a view
        is_wrong = (column < least) | (column > most)
        column[is_wrong] = np.nan
        number += is_wrong.sum()
    if number:
        print(f"{name}: {number} values outside of {least:g} to {most:g} are missing")


def _make_series(table, num_targets, horizon, insert_missing_rows, fills):
    table = table.with_all_times(insert_missing_rows)
    has_target = ~np.isnan(table.values[:, :num_targets]).all(axis=1)
    targets, known = table.columns[:num_targets], table.columns[num_targets:]
    if not has_target.any():
        raise ValueError(
            f"Expected values of {', '.join(targets)}{table.where}. Received: empty cells only."
        )
    length = int(np.flatnonzero(has_target)[-1]) + 1
    rows = len(has_target) if horizon is None else length + horizon
    table = table.with_num_rows(min(rows, len(has_target)) if known else rows)
    num_future = len(table.values) - length
    table = table.with_filled_cells(fills, num_future)
    table.require_numbers(known, 0, num_future)
    values = table.values
    return Series(
        list(table.times), values[:length, :num_targets], values[:, num_targets:], table.name
    )
