"""Settings in files of the kind "series", which contain a forecaster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_format.inputs import Input, read_input
from keras_attn_runtime._file_format.metadata_entries import SERIES, describe_kind, read_entries
from keras_attn_runtime._file_format.settings_reader import SettingsReader


@dataclass(frozen=True)
class SeriesSettings:
    """Metadata of an exported forecaster.

    Attributes:
        format: int, file format version.
        inputs: dict from input names, except `seeds`, to `Input`s.
        targets, past_covariates, future_covariates: lists of strings, column names in the inputs.
        calendar_columns: list of strings, the covariates that `compute_calendar` computes from the
            times. CSV files do not need them.
        time_column: string, name of the time column in CSV files, or `None`.
        series_column: string, column in CSV files that names the series of each row, or `None`.
        horizon: int, number of time steps that the file predicts.
        min_window: int, minimum number of past time steps.
        num_paths: int, number of sampled paths per series.
        quantile_levels: list of floats in (0, 1).
        versions: dict, versions of the libraries that wrote the file.
    """

    format: int
    inputs: dict[str, Input]
    targets: list[str]
    past_covariates: list[str]
    future_covariates: list[str]
    time_column: str | None
    horizon: int
    min_window: int
    num_paths: int
    quantile_levels: list[float]
    versions: dict[str, Any] = field(default_factory=dict)
    calendar_columns: list[str] = field(default_factory=list[str])
    series_column: str | None = None

    @property
    def covariates(self) -> list[str]:
        """list of strings, all past and future covariates."""
        return list(dict.fromkeys([*self.past_covariates, *self.future_covariates]))

    def without_calendar(self, names: Sequence[str]) -> list[str]:
        """Returns the names that are not calendar columns: those that a CSV file needs."""
        return [name for name in names if name not in self.calendar_columns]

    @property
    def window(self) -> int | None:
        """int, number of past time steps, or `None` if it may be any number."""
        size = self.inputs["past_targets"].shape[1]
        return size if isinstance(size, int) else None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> "SeriesSettings":
        """Reads a file's metadata.

        Args:
            metadata: dict of strings, an ONNX file's `metadata_props`.

        Returns:
            `SeriesSettings`.

        Raises:
            ModelFileError: if the metadata is missing, malformed, or of an unknown format or kind.
        """
        number, entries, _ = read_entries(metadata)
        root = SettingsReader("", entries)
        kind = root.get("kind", str)
        if kind != SERIES:
            what, how = describe_kind(entries)
            raise ModelFileError(
                f"Expected a file of the kind {SERIES!r}, which forecasts. Received: "
                f"kind={kind!r}, {what}. Run it with {how}."
            )
        inputs, series = root.part("inputs"), root.part("series")
        settings = cls(
            format=number,
            inputs={name: read_input(inputs.part(name)) for name in inputs.entries},
            targets=series.strings("targets"),
            past_covariates=series.strings("past_covariates"),
            future_covariates=series.strings("future_covariates"),
            time_column=series.get("time_column", (str, type(None)), None),
            horizon=series.integer("horizon", least=1),
            min_window=series.integer("min_window", least=1),
            num_paths=series.integer("num_paths", least=1),
            quantile_levels=series.levels("quantiles"),
            versions=root.get("versions", dict, {}),
            calendar_columns=series.strings("calendar_columns"),
            series_column=series.get("series_column", (str, type(None)), None),
        )
        if not set(settings.calendar_columns) <= set(settings.covariates):
            series.refuse("calendar_columns", f"that are covariates, {settings.covariates}")
        columns = {
            "past_targets": settings.targets,
            "past_covariates": settings.past_covariates,
            "future_covariates": settings.future_covariates,
        }
        expected = {name: len(names) for name, names in columns.items() if names}
        received = {name: entry.shape[-1] for name, entry in settings.inputs.items()}
        has_other_rank = any(len(entry.shape) != 3 for entry in settings.inputs.values())
        if received != expected or has_other_rank:
            root.refuse("inputs", f"that has the numbers of columns {expected}")
        return settings
