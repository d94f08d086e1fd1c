"""`keras-attn-runtime forecast FILE --input in.csv --output out.csv`."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

from keras_attn_runtime.commands.argument_types import integer, positive_integer
from keras_attn_runtime.commands.line_arguments import add_model
from keras_attn_runtime.errors import in_one_line
from keras_attn_runtime.forecaster import Forecaster
from keras_attn_runtime.series_csv import CsvColumns, read_series, write_forecasts

HELP = "forecast the series of a CSV file"
DESCRIPTION = (
    "Reads series from a CSV file, and writes the mean and the quantiles of each target for the "
    "next time steps. `info FILE` lists the columns that the CSV file must have. Empty cells of "
    "targets are missing values. If the model has covariates that are known in the future, each "
    "series must end with rows for the future, in which the cells of the targets are empty."
)
EPILOG = "Exit status: 0 forecasts written; 1 stopped by an error; 2 wrong command line."


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_model(parser)
    add = parser.add_argument
    add("--input", default="-", metavar="CSV", help="file to read. Default: standard input")
    add("--output", default="-", metavar="CSV", help="file to write. Default: standard output")
    add(
        "--time-column",
        metavar="NAME",
        help="column of the times: integers or ISO dates with equal steps. Default: the time "
        "column that FILE names; if FILE names none, times are not read",
    )
    add(
        "--series-column",
        metavar="NAME",
        help="column that names the series of each row. Default: all rows are one series",
    )
    add(
        "--seed",
        type=integer,
        default=0,
        metavar="N",
        help="seed of the sampled paths: the same seed gives the same forecasts. Default: 0",
    )
    add(
        "--batch-size",
        type=positive_integer,
        default=64,
        metavar="N",
        help="series in one batch. Default: %(default)s",
    )
    add(
        "--threads",
        type=positive_integer,
        metavar="N",
        help="CPU threads. Default: all cores that the process may use",
    )
    add(
        "--provider",
        default="cpu",
        metavar="NAME",
        help="cpu, cuda or another execution provider of ONNX Runtime. Default: %(default)s",
    )


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    try:
        forecaster = Forecaster(arguments.model, arguments.provider, arguments.threads)
        settings = forecaster.settings
        time = arguments.time_column or settings.time_column
        columns = CsvColumns(time, arguments.series_column)
        with _open_input(arguments.input) as file:
            series = read_series(file, settings, columns)
        lengths = {len(each.arrays["past_targets"]) for each in series}
        if len(lengths) > 1:
            raise ValueError(
                "Expected series with the same number of rows. Received: "
                f"{min(lengths)} to {max(lengths)} rows. Insert rows with empty targets at the "
                "beginning of the shorter series."
            )
        arrays = {
            name: np.stack([each.arrays[name] for each in series]) for name in settings.inputs
        }
        results = forecaster(arrays, arguments.seed, batch_size=arguments.batch_size)
        with _open_output(arguments.output) as file:
            write_forecasts(file, series, results, settings, columns)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {in_one_line(error)}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _open_input(path: str) -> Generator[TextIO, None, None]:
    if path == "-":
        yield sys.stdin
        return
    # utf-8-sig also reads files that begin with a byte order mark, as spreadsheets write them.
    with open(path, newline="", encoding="utf-8-sig") as file:
        yield file


@contextmanager
def _open_output(path: str) -> Generator[TextIO, None, None]:
    if path == "-":
        yield sys.stdout
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        yield file
