"""`keras-attn`: parses the command line and runs one command."""

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from keras_attn_commands.interruption import INTERRUPTED

COMMANDS = {
    "train": "keras_attn_commands.train.command",
    "evaluate": "keras_attn_commands.evaluate",
    "convert": "keras_attn_commands.convert",
    "export": "keras_attn_commands.export",
    "launch": "keras_attn_commands.launch",
    "examples": "keras_attn_commands.examples",
}
"""Dict from commands to their modules, which are imported when Ctrl-C is already handled."""
CLOSED_PIPE = 141
"""Exit status if the program that reads the output has ended, as in a shell."""


class PrintVersion(argparse.Action):
    """Prints the version. Imports `keras_attn` only if its metadata are not installed."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import importlib.metadata

        try:
            version = importlib.metadata.version("keras-attn")
        except importlib.metadata.PackageNotFoundError:  # not installed
            from keras_attn import __version__ as version
        print(f"keras-attn {version}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="keras-attn",
        description="Attention, decoding and beam search layers for Keras 3.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28),
        epilog="`keras-attn COMMAND --help` lists the options of a command.",
    )
    parser.add_argument("--version", action=PrintVersion)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for name, path in COMMANDS.items():
        module: Any = importlib.import_module(path)
        command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION)
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command, stopped=module.STOPPED)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    try:
        return _run_command(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt as interruption:
        _report(interruption)
        return INTERRUPTED


def run() -> None:
    """Runs the command line of the process and ends the process."""
    warnings.showwarning = show_warning
    try:
        sys.exit(_run_command(sys.argv[1:]))
    except KeyboardInterrupt as interruption:
        _report(interruption)
        sys.stdout.flush()
        # End here: at a normal exit, TensorFlow logs errors about objects that were never used.
        os._exit(INTERRUPTED)


def _run_command(arguments: list[str]) -> int:
    """Runs a command and returns its exit status. A `KeyboardInterrupt` has a line as its text."""
    stopped = "Stopped. Run the same command to start again."
    try:
        parser = build_parser()
        if arguments[:1] == ["export"]:
            from keras_attn_commands.export_parser import format_first

            arguments[1:] = format_first(arguments[1:])
        options = parser.parse_args(arguments)
        stopped = options.stopped
        status = options.run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader closed the pipe, as in `| head`. Python would write the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt as interruption:
        raise KeyboardInterrupt(str(interruption) or stopped) from interruption


def _report(interruption: KeyboardInterrupt) -> None:
    """Prints the line of an interrupted command, on a terminal below the ^C that it shows."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    print(f"{chr(10) if is_terminal else ''}{interruption}", file=sys.stderr, flush=True)


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Prints a warning of Python in one line, without the place in the code."""
    print(f"Warning: {' '.join(str(message).split())}", file=sys.stderr, flush=True)
