"""Settings of `keras-attn train forecast`."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from keras_attn_checks.options import (
    BOOL,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    Kind,
    choice,
)
from keras_attn_commands.train.settings import PATH, SHARE, TEXT, TrainingSettings, setting

Delimiter = Literal["comma", "semicolon", "tab"]
Decimal = Literal["point", "comma"]
Head = Literal["student_t", "gaussian", "quantile", "point"]


def _list_of(title: str, expected: str, convert: Callable[[Any], Any]) -> Kind:
    """Returns the kind of lists, which are separated by commas on the command line."""

    def converted(value: Any) -> list[Any]:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise TypeError(value)
        return [convert(item) for item in items if item != ""]

    return Kind(title, expected, converted)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _fill(value: Any) -> str:
    parse_fill(value)
    return value


def _range(value: Any) -> str:
    parse_range(value)
    return value


def parse_fill(text: str) -> tuple[str, float | str]:
    """Returns column and content from NAME=NUMBER or NAME=previous."""
    name, _, value = text.rpartition("=")
    if value == "previous" and name:
        return name, value
    return _named(name), _finite(value)


def parse_range(text: str) -> tuple[str, tuple[float, float]]:
    """Returns column and limits from NAME=LEAST:MOST."""
    name, _, limits = text.rpartition("=")
    least, _, most = limits.partition(":")
    return _named(name), (_finite(least), _finite(most))


def _named(name: str) -> str:
    if not name:
        raise ValueError(name)
    return name


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return float(text)


NAMES = _list_of("Names", "names, separated by commas", _name)
FILLS = _list_of("Fills", "NAME=NUMBER or NAME=previous, separated by commas", _fill)
RANGES = _list_of("Ranges", "NAME=LEAST:MOST, separated by commas", _range)
LAGS = _list_of("Lags", "integers, separated by commas", int)


@dataclasses.dataclass(kw_only=True)
class SeriesSettings:
    """Data"""

    data: Path | None = setting(
        None,
        PATH,
        "CSV file with a row for each time, or directory of such files, which are joined in the "
        "order of their names. Without it, 200 monthly series with the target 'value' are "
        "generated",
    )
    time_column: str = setting(
        "date",
        TEXT,
        "column of the times with equal steps: integers, dates such as 2024-12-31, months such as "
        "2024-12, quarters such as 2024Q4, or dates with a time of day",
        metavar="NAME",
    )
    series_column: str | None = setting(
        None,
        TEXT,
        "column that names the series of each row. Without it, all rows are one series",
        metavar="NAME",
    )
    targets: list[str] = setting(
        "value", NAMES, "columns to forecast, separated by commas", metavar="NAMES"
    )
    known_covariates: list[str] = setting(
        "",
        NAMES,
        "columns that are known in the future, such as holidays or planned prices, separated by "
        "commas",
        metavar="NAMES",
    )
    calendar: list[str] = setting(
        None,
        NAMES,
        "covariates that are computed from the times, such as week_sin1,week_cos1 (hour, day, "
        "week, month, year; sin, cos; 1 to 9 periods), separated by commas; '' for none",
        by_data=True,
        metavar="NAMES",
    )
    insert_missing_rows: bool = setting(
        False, BOOL, "insert a row of empty cells for each missing time; empty targets are masked"
    )
    fills: list[str] = setting(
        "",
        FILLS,
        "content of the empty cells of covariates, such as holiday=0,price=previous",
        metavar="NAME=VALUE",
        name="--fill",
    )
    valid_ranges: list[str] = setting(
        "",
        RANGES,
        "values of columns outside of these ranges count as missing, such as pressure=950:1050",
        metavar="NAME=LEAST:MOST",
        name="--valid-range",
    )
    replace_rows: bool = setting(
        False,
        BOOL,
        "a row of a later file replaces a row with the same time; without this option, equal times "
        "are an error",
    )
    delimiter: Delimiter = setting("comma", choice(Delimiter), "character between cells")
    decimal: Decimal = setting("point", choice(Decimal), "decimal separator")


@dataclasses.dataclass(kw_only=True)
class WindowSettings:
    """Windows, in rows"""

    season: int = setting(None, POSITIVE_INTEGER, "rows of a season; 1: none", by_data=True)
    horizon: int = setting(None, POSITIVE_INTEGER, "rows to forecast", by_data=True)
    window: int = setting(None, POSITIVE_INTEGER, "past rows that the encoder reads", by_data=True)
    lags: list[int] = setting(
        None,
        LAGS,
        "earlier rows that a step also reads, from the horizon to the window, separated by commas; "
        "'' for none",
        by_data=True,
        metavar="N,N",
    )
    origins: int = setting(
        3, POSITIVE_INTEGER, "forecasts of each series in the test, at its end, of a horizon each"
    )
    stride: int = setting(None, POSITIVE_INTEGER, "rows between two training windows", by_data=True)


@dataclasses.dataclass(kw_only=True)
class ForecasterSettings:
    """Model and optimizer"""

    head: Head = setting("student_t", choice(Head), "distribution of a value")
    units: int = setting(32, POSITIVE_INTEGER, "size of encoder, cell and attention")
    dropout: float = setting(0.1, SHARE, "share of dropped features")
    sampling_probability: float = setting(
        0.0, SHARE, "share of time steps that read a sampled value in training"
    )
    batch_size: int = setting(None, POSITIVE_INTEGER, "windows of a batch", by_data=True)
    learning_rate: float = setting(3e-3, POSITIVE_NUMBER, "highest learning rate of Adam")
    paths: int = setting(200, POSITIVE_INTEGER, "sampled paths of each forecast")


@dataclasses.dataclass(kw_only=True)
class ForecastSettings(SeriesSettings, WindowSettings, ForecasterSettings, TrainingSettings):
    """Program"""


MAY_CHANGE = {"data", "origins", "paths"}
"""Settings that may differ when a training is resumed. The data are compared by checksum."""
