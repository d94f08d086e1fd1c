from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
import numpy.typing as npt

from keras_attn_runtime._array_types import Arrays, Floats, masked_to_nan
from keras_attn_runtime._calls.argument_checks import require_integer
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.create_session import Providers
from keras_attn_runtime._engines.fixed_sizes import fixed_batch_size, run_rows
from keras_attn_runtime._engines.open_model import open_model
from keras_attn_runtime._engines.pickled_arguments import PickledArguments
from keras_attn_runtime._engines.session_pool import SessionPool
from keras_attn_runtime._errors import ModelFileError, run_failures
from keras_attn_runtime._file_format import SeriesSettings
from keras_attn_runtime._series.csv_rows import Source
from keras_attn_runtime._series.series_csv import (
    CsvOptions,
    csv_keys,
    read_series,
    stack_series,
)
from keras_attn_runtime._series.times import Time

SEEDS = "seeds"
OUTPUTS = ("mean", "quantiles")


@dataclass(frozen=True)
class SeriesForecast:
    """The forecast of one series in a CSV file.

    Attributes:
        name: string, the series' name, or "" for a single series.
        times: list, forecast times, in the form of the file; step numbers without a time column.
        mean: float32 array `(horizon, targets)`.
        quantiles: float32 array `(horizon, targets, levels)`.
    """

    name: str
    times: Sequence[Time]
    mean: Floats
    quantiles: Floats


class Forecaster(PickledArguments):
    """Forecasts series with a file from `export_forecaster_onnx` or `export_forecaster_litert`.

    The file scales the series, predicts step by step, and samples paths. Several threads can use a
    `Forecaster` at the same time.

    Args:
        path: string or path, the file, or the directory with `model.onnx` and its weights.
        providers: ONNX Runtime execution providers, such as "cpu" or "cuda". Default: "cpu".
        num_threads: int of at least 1, number of CPU threads. Default: all cores that the process
            may use.

    Attributes:
        settings: the metadata of the file, an object with the attributes `targets`,
            `past_covariates`, `future_covariates` and `calendar_columns` (lists of column names),
            `time_column` and `series_column` (strings or `None`), `horizon` (int, number of time
            steps in a forecast), `window` (int, number of past time steps, or `None` for any),
            `min_window` and `num_paths` (ints), `quantile_levels` (list of floats in (0, 1)), and
            `versions` (dict).

    Raises:
        IsADirectoryError: if the directory contains no `model.onnx`.
        ModelFileError: if the file is damaged, not exported by keras_attn, or does not forecast.
        ProviderError: if a provider is not available.

    Example:

    ```python
    forecaster = Forecaster("forecaster.onnx")
    results = forecaster({"past_targets": series[None, -48:, None]}, seed=1)
    results["quantiles"]  # (batch, horizon, targets, quantiles)
    forecaster.settings.quantile_levels  # [0.05, 0.25, 0.5, 0.75, 0.95]
    ```
    """

    def __init__(
        self,
        path: str | PathLike[str],
        providers: Providers | None = None,
        num_threads: int | None = None,
    ) -> None:
        opened = open_model(
            path,
            lambda metadata, _: SeriesSettings.from_metadata(metadata),
            providers,
            num_threads,
        )
        self.settings = opened.settings
        session = opened.sessions[0]
        self._pool = SessionPool(opened.sessions, not session.supports_concurrent_runs)
        self._engine = session.engine
        self._batch_size = fixed_batch_size(session)
        self._inputs = [entry.name for entry in session.inputs]
        self._outputs = [entry.name for entry in session.outputs]
        expected = [*self.settings.inputs, SEEDS]
        if sorted(self._inputs) != sorted(expected) or not set(OUTPUTS) <= set(self._outputs):
            raise ModelFileError(
                f"Expected a file with inputs {expected} and outputs {list(OUTPUTS)}. Received: "
                f"inputs={self._inputs}, outputs={self._outputs}. Export the model again."
            )

    def __call__(
        self,
        arrays: Mapping[str, npt.ArrayLike],
        seed: int = 0,
        seeds: Sequence[int] | None = None,
        batch_size: int = 64,
    ) -> Arrays:
        """Forecasts a batch of series.

        Args:
            arrays: dict from input names to arrays of numbers. `past_targets` `(batch, past,
                targets)` uses the series' units, and NaN for missing values (or masked elements in
                a `numpy.ma.MaskedArray`). A file with covariates also needs `past_covariates`
                `(batch, past, columns)`, `future_covariates` `(batch, horizon, columns)`, or both,
                without NaN.
            seed: int of at least 0. The n-th series uses `seed + n`. Default: 0.
            seeds: list of ints of at least 0, one for each series, instead of `seed`. Equal seeds
                give equal paths. Default: none.
            batch_size: int of at least 1, maximum number of series to run at once. A file with a
                fixed batch size runs at most that number. Default: 64.

        Returns:
            Dict from names to float32 arrays: `mean` `(batch, horizon, targets)`, `quantiles`
            `(batch, horizon, targets, levels)` and, if the file returns them, `paths` `(batch,
            paths, horizon, targets)` and `attention_scores` `(batch, horizon, past)`.

        Raises:
            ValueError: if an array is missing or has a wrong shape or dtype, or a covariate is not
                a finite number.
            BatchError: if ONNX Runtime or LiteRT fails.
        """
        feeds = self._checked(arrays)
        rows = len(feeds["past_targets"])
        seed = require_integer("seed", seed, least=0)
        batch_size = require_integer("batch_size", batch_size, least=1)
        if seeds is None:
            seeds = [(seed + row) % 2**31 for row in range(rows)]
        if len(seeds) != rows:
            raise ValueError(
                f"Expected one seed for each of {rows} series. Received: {len(seeds)} seeds."
            )
        seeds = [require_integer("seeds", value, least=0) for value in seeds]
        inputs: Arrays = {**feeds, SEEDS: np.array(seeds, np.int32)}
        parts: list[Arrays] = []
        batch_size = min(batch_size, self._batch_size or batch_size)
        for start in range(0, rows, batch_size):
            part = {name: array[start : start + batch_size] for name, array in inputs.items()}
            with (
                run_failures(len(part[SEEDS]), None, self._engine),
                self._pool.borrow() as session,
            ):
                parts.append(run_rows(session, self._outputs, part, Call()))
        return {name: np.concatenate([part[name] for part in parts]) for name in self._outputs}

    def forecast_csv(
        self,
        file: Source,
        time_column: str | None = None,
        series_column: str | None = None,
        *,
        insert_missing_rows: bool = False,
        fills: Mapping[str, float | str] | None = None,
        delimiter: str = ",",
        decimal: str = ".",
        seed: int = 0,
        batch_size: int = 64,
    ) -> list[SeriesForecast]:
        """Forecasts the series in a CSV file, like the command `keras-attn-runtime forecast`.

        The file needs the targets and covariates of the model, except its calendar columns
        (`settings.calendar_columns`), which are computed from the times. If the model takes other
        future covariates, each series ends with `horizon` rows for the future, whose target cells
        are empty.

        Args:
            file: path, or open binary or text file. Open a text file with `newline=""`.
            time_column: string, time column. Default: `settings.time_column`.
            series_column: string, column that names the series of each row, or "" if all rows are
                one series. Default: `settings.series_column`.
            insert_missing_rows: bool, whether a row of empty cells is inserted for each missing
                time. Default: `False`, an error.
            fills: dict from covariate names to the content for empty cells: a number, or
                "previous". Default: none.
            delimiter: string, the character between cells. Default: ",".
            decimal: "." or ",", the decimal separator. Default: ".".
            seed: int of at least 0. The n-th series uses `seed + n`. Default: 0.
            batch_size: int of at least 1, maximum number of series to run at once. Default: 64.

        Returns:
            List of `SeriesForecast`s, one for each series, in file order.

        Raises:
            ValueError: if a column is missing, a cell is not a number, a time or a covariate is
                missing, or a series is shorter than the window.
            BatchError: if ONNX Runtime or LiteRT fails.

        Example:

            (forecast,) = forecaster.forecast_csv("sales.csv")
            dict(zip(forecast.times, forecast.mean[:, 0]))
        """
        time, series = csv_keys(self.settings, time_column, series_column)
        options = CsvOptions(time, series, insert_missing_rows, delimiter, decimal, fills or {})
        items = read_series(file, self.settings, options)
        results = self(stack_series(items), seed, batch_size=batch_size)
        return [
            SeriesForecast(item.name, item.times, results["mean"][row], results["quantiles"][row])
            for row, item in enumerate(items)
        ]

    def _checked(self, arrays: Mapping[str, npt.ArrayLike]) -> dict[str, Floats]:
        """Returns the inputs as float32 arrays."""
        self._require_mapping(arrays)
        if set(arrays) != set(self.settings.inputs):
            raise ValueError(
                f"Expected arrays for the inputs {sorted(self.settings.inputs)}. Received: "
                f"{sorted(map(str, arrays))}."
            )
        feeds = {name: self._checked_array(name, arrays[name]) for name in self.settings.inputs}
        counts = {name: len(array) for name, array in feeds.items()}
        if len(set(counts.values())) > 1 or not all(counts.values()):
            raise ValueError(
                "Expected the same number of series in each input, and at least one. Received: "
                f"{counts}."
            )
        lengths = {name: feeds[name].shape[1] for name in feeds if name != "future_covariates"}
        if len(set(lengths.values())) > 1:
            raise ValueError(
                f"Expected the same number of past time steps in each input. Received: {lengths}."
            )
        return feeds

    def _require_mapping(self, arrays: object) -> None:
        if not isinstance(arrays, Mapping):
            raise ValueError(
                "Expected a dict of arrays by the names of the inputs, "
                f"{list(self.settings.inputs)}. Received: type={type(arrays).__name__}."
            )

    def _checked_array(self, name: str, value: npt.ArrayLike) -> Floats:
        sizes = self.settings.inputs[name].shape
        try:
            array = np.asarray(masked_to_nan(value))
        except (TypeError, ValueError) as error:
            raise ValueError(f"Expected numbers for {name!r} ({error}).") from error
        if array.dtype.kind not in "iuf":
            raise ValueError(f"Expected numbers for {name!r}. Received: dtype={array.dtype}.")
        fits = array.ndim == 3 and all(
            isinstance(size, str) or size == given
            for size, given in zip(sizes[1:], array.shape[1:], strict=True)
        )
        if not fits:
            raise ValueError(
                f"Expected shape ({', '.join(map(str, sizes))}) for {name!r}. Received: "
                f"shape={array.shape}."
            )
        least = self.settings.min_window
        if name != "future_covariates" and array.shape[1] < least:
            raise ValueError(
                f"Expected at least {least} time steps in {name!r}. Received: shape={array.shape}. "
                "Add earlier values, or NaN for missing ones."
            )
        with np.errstate(over="ignore"):  # checked below
            array = array.astype(np.float32)
        if np.isinf(array).any() or (name != "past_targets" and np.isnan(array).any()):
            allowed = "or NaN" if name == "past_targets" else "without NaN"
            raise ValueError(
                f"Expected finite float32 numbers {allowed} in {name!r}. Received: "
                f"{int((~np.isfinite(array)).sum())} other values. Replace them."
            )
        return array
