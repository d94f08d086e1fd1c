"""`keras-attn-runtime`: parses the command line and runs one command."""

import argparse
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Protocol

import keras_attn_runtime
from keras_attn_runtime._commands import classify, extract, forecast, info, score, translate, triton
from keras_attn_runtime._commands.interruption import SIGNAL, TIMED_OUT


class Command(Protocol):
    """Interface of command modules, see `keras_attn_runtime._commands`."""

    @property
    def HELP(self) -> str: ...

    @property
    def DESCRIPTION(self) -> str: ...

    def add_arguments(self, parser: ArgumentParser) -> None: ...

    def run(self, arguments: Namespace) -> int: ...


COMMANDS: Mapping[str, Command] = {
    "translate": translate,
    "score": score,
    "classify": classify,
    "forecast": forecast,
    "info": info,
    "extract": extract,
    "triton": triton,
}


def build_parser() -> ArgumentParser:
    """Returns the parser for the whole command line."""
    parser = argparse.ArgumentParser(
        prog="keras-attn-runtime",
        description="Runs ONNX and LiteRT files exported by keras-attn, without Keras and "
        "TensorFlow.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28),
        epilog="`keras-attn-runtime COMMAND --help` lists the options of a command.",
    )
    version = f"keras-attn-runtime {keras_attn_runtime.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=getattr(module, "EPILOG", None),
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status."""
    parsed = build_parser().parse_args(arguments)
    try:
        status = parsed.run(parsed)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader closed the pipe, as in `| head`. Without this, Python would fail at exit when
        # writing the rest.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return SIGNAL + 2  # SIGINT


def run() -> None:
    """Runs the process's command line and ends the process."""
    end_process(main())


def end_process(status: int) -> None:
    """Ends the process with an exit status from `main`."""
    if status >= TIMED_OUT:
        # A normal exit would wait for threads that read a line or run an operator. All output is
        # already written.
        os._exit(status)
    sys.exit(status)
