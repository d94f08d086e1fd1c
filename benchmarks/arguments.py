"""Command-line arguments of the benchmarks."""

import argparse
import os
from pathlib import Path

from results_file import FOLDER


def argument_parser(doc, threads=None, seed=None):
    """Returns a parser with the options that most benchmarks share.

    Args:
        doc: docstring of the benchmark; its first line is the description.
        threads: int, default of `--threads`. `None` leaves out this option.
        seed: int, default of `--seed`. `None` leaves out this option.
    """
    parser = argparse.ArgumentParser(
        description=doc.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads)
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory of the results")
    return parser


def settings_of(args, **others):
    """Returns a dict of the arguments and of `others`, for a results file.

    The dict does not contain `out` and absolute paths, because these depend on the machine.
    """
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(args).items()
        if name != "out" and not os.path.isabs(str(value))
    }
    return {**settings, **others}
