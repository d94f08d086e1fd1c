"""Options of examples/forecast_series.py."""

import argparse
from pathlib import Path

from keras_attn_runtime._commands.argument_types import column_fill
from keras_attn_runtime._series.csv_rows import DELIMITERS
from keras_attn_runtime._series.table import DECIMALS


def parse_arguments(description, heads):
    """Returns the arguments of the command line.

    Args:
        description: String, text of the help.
        heads: List of strings, names of the heads.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/forecast"), help="output directory")
    parser.add_argument(
        "--csv",
        type=Path,
        nargs="+",
        help="CSV files of one series, with a row for each time; columns that are neither targets "
        "nor covariates are ignored",
    )
    parser.add_argument(
        "--time-column",
        default="date",
        help="column of the times with equal steps: integers, dates such as 2024-12-31, months "
        "such as 2024-12, quarters such as 2024Q4, or dates with a time of day",
    )
    parser.add_argument(
        "--replace-rows",
        action="store_true",
        help="a row of a later file replaces a row with the same time; without this option, two "
        "rows with the same time are an error",
    )
    parser.add_argument(
        "--delimiter", choices=list(DELIMITERS), default="comma", help="character between cells"
    )
    parser.add_argument(
        "--decimal", choices=list(DECIMALS), default="point", help="decimal separator"
    )
    parser.add_argument("--targets", nargs="+", default=["value"], help="columns to forecast")
    parser.add_argument(
        "--known-covariates",
        nargs="+",
        default=[],
        metavar="NAME",
        help="columns that are known in the future, such as holidays or planned prices",
    )
    parser.add_argument(
        "--insert-missing-rows",
        action="store_true",
        help="insert a row of empty cells for each missing time; empty targets are masked",
    )
    parser.add_argument(
        "--fill",
        type=column_fill,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="content of the empty cells of a covariate: a number, or 'previous'",
    )
    parser.add_argument(
        "--valid-range",
        type=column_range,
        action="append",
        default=[],
        metavar="NAME=LEAST:MOST",
        help="values of the column outside of this range count as missing",
    )
    parser.add_argument("--series", type=int, default=200, help="number of generated series")
    parser.add_argument("--length", type=int, default=180, help="length of generated series")
    parser.add_argument("--season", type=int, default=12, help="rows of a season, for the scores")
    parser.add_argument("--horizon", type=int, default=12, help="rows to forecast")
    parser.add_argument("--window", type=int, default=48, help="time steps that the encoder reads")
    parser.add_argument(
        "--lags",
        type=int,
        nargs="*",
        default=[12, 24, 36],
        help="earlier rows that a step reads, from the horizon to the window",
    )
    parser.add_argument(
        "--origins", type=int, default=3, help="forecasts of each series in the test"
    )
    parser.add_argument("--head", choices=heads, default="student_t")
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--sampling-probability", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--paths", type=int, default=200, help="sampled paths of each forecast")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.csv is None:
        if args.known_covariates:
            parser.error("--known-covariates are columns of --csv FILE")
        args.targets = ["value"]
    _check_columns(args)
    return args


def column_range(text):
    """Returns `(name, (least, most))` of the text NAME=LEAST:MOST."""
    name, _, numbers = text.partition("=")
    least, _, most = numbers.partition(":")
    return name, (float(least), float(most))


def _check_columns(args):
    """Stops if names of the columns are wrong."""
    known_names = args.known_covariates
    names = [args.time_column, *args.targets, *known_names]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise SystemExit(f"Expected each column once. Received: {', '.join(double)} repeatedly.")
    unknown = [name for name, _ in args.valid_range if name not in [*args.targets, *known_names]]
    if unknown:
        raise SystemExit(
            f"Expected --valid-range for targets or known covariates. Received: {unknown}."
        )
    unknown = [name for name, _ in args.fill if name not in known_names]
    if unknown:
        raise SystemExit(
            f"Expected --fill for known covariates. Received: {unknown}. Empty cells of targets "
            "are masked."
        )
