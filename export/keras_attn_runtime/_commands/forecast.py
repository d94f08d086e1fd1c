"""`keras-attn-runtime forecast FILE --input in.csv --output out.csv`."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from keras_attn_runtime._commands.argument_types import column_fill, integer, positive_integer
from keras_attn_runtime._commands.line_arguments import add_model
from keras_attn_runtime._errors import in_one_line
from keras_attn_runtime._file_format.file_checksum import model_files
from keras_attn_runtime._files.atomic_files import atomic_files, is_stream, require_different_files
from keras_attn_runtime._series.csv_rows import DELIMITERS
from keras_attn_runtime._series.forecaster import Forecaster
from keras_attn_runtime._series.series_csv import (
    CsvOptions,
    CsvSeries,
    csv_keys,
    read_series,
    stack_series,
    write_forecasts,
)
from keras_attn_runtime._series.table import DECIMALS

HELP = "forecast the series of a CSV file"
DESCRIPTION = (
    "Reads series from a CSV file, and writes the mean and the quantiles of each target for the "
    "next time steps. `info FILE` lists the columns that the CSV file must have. Empty cells of "
    "targets are missing values. Calendar columns of the model, such as year_sin1, are computed "
    "from the times. If the model has other covariates that are known in the future, each series "
    "must end with rows for the future, in which the cells of the targets are empty."
)
STANDARD_INPUT = 0  # file descriptor
EPILOG = "Exit status: 0 forecasts written; 1 stopped by an error; 2 wrong command line."


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_model(parser)
    add = parser.add_argument
    add("--input", default="-", metavar="CSV", help="file to read. Default: standard input")
    add(
        "--output",
        default="-",
        metavar="CSV",
        help="file to write, other than the input. An existing file is replaced when the forecasts "
        "are complete. Default: standard output",
    )
    add(
        "--time-column",
        metavar="NAME",
        help="column of the times with equal steps: integers, dates such as 2024-12-31, months "
        "such as 2024-12, quarters such as 2024Q4, or dates with a time of day. Default: the time "
        "column that FILE names; if FILE names none, times are not read",
    )
    add(
        "--series-column",
        metavar="NAME",
        help="column that names the series of each row, or '' if all rows are one series. Default: "
        "the series column that FILE names; if FILE names none, all rows are one series",
    )
    add(
        "--delimiter",
        choices=list(DELIMITERS),
        default="comma",
        help="character between the cells of the input. Default: %(default)s",
    )
    add(
        "--decimal",
        choices=list(DECIMALS),
        default="point",
        help="decimal separator of the input. The output always has commas between cells, and "
        "points in numbers. Default: %(default)s",
    )
    add(
        "--insert-missing-rows",
        action="store_true",
        help="insert a row for each missing time. Its targets are missing values; its covariates "
        "need --fill. Default: a missing time is an error",
    )
    add(
        "--fill",
        type=column_fill,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="content of the empty cells of a covariate: a number, such as holiday=0, or "
        "'previous', which repeats the value of the row before, but not in the future. Can be "
        "repeated. Default: an empty cell is an error",
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
        _check_paths(arguments)
        forecaster = Forecaster(arguments.model, arguments.provider, arguments.threads)
        settings = forecaster.settings
        options = CsvOptions(
            *csv_keys(settings, arguments.time_column, arguments.series_column),
            arguments.insert_missing_rows,
            DELIMITERS[arguments.delimiter],
            DECIMALS[arguments.decimal],
            dict(arguments.fill),
        )
        source = sys.stdin.buffer if arguments.input == "-" else arguments.input
        series = read_series(source, settings, options)
        if options.time:
            _warn_of_different_ends(series)
        arrays = stack_series(series)
        results = forecaster(arrays, arguments.seed, batch_size=arguments.batch_size)
        with _open_output(arguments.output) as file:
            write_forecasts(file, series, results, settings, options)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {in_one_line(error)}", file=sys.stderr)
        return 1
    return 0


def _warn_of_different_ends(series: Sequence[CsvSeries]) -> None:
    """Warns if the series end at different times, because rows of a series may be missing."""
    ends = {each.times[0]: each.name for each in series}
    if len(ends) > 1:
        first, last = min(ends), max(ends)
        print(
            f"warning: The forecasts start at different times, from {first} (series "
            f"{ends[first]!r}) to {last} (series {ends[last]!r}). Add missing rows at the end.",
            file=sys.stderr,
        )


def _check_paths(arguments: Namespace) -> None:
    """Raises an error if a standard stream is closed, or the output is also an input."""
    if arguments.input == "-" and sys.stdin is None:
        raise OSError(
            "Expected standard input. Received: stdin=None. Start the command with an open "
            "standard input, or use --input."
        )
    if arguments.output == "-" and sys.stdout is None:
        raise OSError(
            "Expected standard output. Received: stdout=None. Start the command with an open "
            "standard output, or use --output."
        )
    if arguments.output != "-" and not is_stream(arguments.output):
        source = STANDARD_INPUT if arguments.input == "-" else arguments.input
        require_different_files(arguments.output, source, *model_files(arguments.model))


@contextmanager
def _open_output(path: str) -> Generator[TextIO, None, None]:
    """Opens the output. A file is written whole or not at all; a stream is written directly."""
    if path == "-":
        yield sys.stdout
    elif is_stream(path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            yield file
    else:
        with atomic_files(path) as (binary,):
            file = TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
            yield file
            file.detach()
