"""The command line of a benchmark, and what is recorded of it."""

import argparse
import os
from pathlib import Path

from results_file import FOLDER


def argument_parser(doc, threads=None, seed=None):
    """A parser with the options that most benchmarks have.

    Args:
        doc: docstring of the benchmark; its first line is the description.
        threads: int, default of `--threads`; `None`: there is no such option.
        seed: the same of `--seed`.
    """
    parser = argparse.ArgumentParser(
        description=doc.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads)
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--out", type=Path, default=FOLDER, help="directory")
    return parser


def settings_of(args, **others):
    """The arguments by name, and others that go before them.

    The folder of the results and absolute paths are left out: they tell about one machine alone.
    """
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(args).items()
        if name != "out" and not os.path.isabs(str(value))
    }
    return {**settings, **others}
