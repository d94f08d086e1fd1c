import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn_checks.calendar_columns import check_calendar_columns

LISTS = ("targets", "past_covariates", "future_covariates", "calendar_columns")


@dataclasses.dataclass(frozen=True)
class SeriesColumns:
    """The names of the columns of a forecaster, for its run directory.

    `keras-attn export` writes the names to the metadata of the exported file, so that
    `keras-attn-runtime forecast` can read CSV files.

    Args:
        targets: Sequence of strings, names of the targets. Defaults to `None`: `target_0`, ...
        past_covariates: Sequence of strings, names of the past covariates. Defaults to `None`:
            `past_covariate_0`, ...
        future_covariates: Sequence of strings, names of the future covariates. A covariate that is
            known in the past and in the future has the same name in both sequences. Defaults to
            `None`: `future_covariate_0`, ...
        time_column: String, name of the column with the times. Defaults to `None`.
        calendar_columns: Sequence of strings, the covariates that are computed from the times, see
            `keras_attn.forecasting.compute_calendar`. Defaults to `None`: none.
        series_column: String, name of the column that names the series of each row. Defaults to
            `None`: all rows are one series.

    Raises:
        ValueError: If a value has a wrong type, or a sequence contains a name twice.

    Example:

    >>> from keras_attn.training import SeriesColumns
    >>> SeriesColumns(targets=["temperature"], time_column="day").entries()
    {'targets': ['temperature'], 'time_column': 'day'}
    """

    targets: Sequence[str] | None = None
    past_covariates: Sequence[str] | None = None
    future_covariates: Sequence[str] | None = None
    time_column: str | None = None
    calendar_columns: Sequence[str] | None = None
    series_column: str | None = None

    def __post_init__(self) -> None:
        for name in LISTS:
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, (list, tuple)) or not all(isinstance(x, str) for x in value):
                raise ValueError(
                    f"Expected {name} to be a list of strings. Received: {name}={value!r}."
                )
            if len(set(value)) < len(value):
                raise ValueError(
                    f"Expected {name} with different names. Received: {name}={value!r}. Rename a "
                    "column."
                )
            object.__setattr__(self, name, list(value))
        covariates = [*(self.past_covariates or ()), *(self.future_covariates or ())]
        check_calendar_columns(self.calendar_columns or (), covariates)
        for name in ("time_column", "series_column"):
            value = getattr(self, name)
            if not isinstance(value, (str, type(None))):
                raise ValueError(f"Expected {name} to be a string. Received: {name}={value!r}.")

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> "SeriesColumns":
        """Creates a `SeriesColumns` from a dict that `entries` returned. Ignores unknown keys."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: entries[name] for name in names if name in entries})

    def entries(self) -> dict[str, object]:
        """Returns a dict of the known values."""
        return {name: value for name, value in vars(self).items() if value is not None}
