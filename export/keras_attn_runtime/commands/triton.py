"""`keras-attn-runtime triton FILE REPOSITORY`."""

import sys
from argparse import ArgumentParser, Namespace

from keras_attn_runtime.commands.line_arguments import add_model
from keras_attn_runtime.commands.triton_repository import write_repository

HELP = "add a file to a model repository of NVIDIA Triton"
DESCRIPTION = (
    "Adds an ONNX file exported by keras-attn to a model repository of NVIDIA Triton Inference "
    "Server. Exit status: 0 written; 1 nothing was written; 2 invalid command line."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_model(parser)
    parser.add_argument(
        "repository", metavar="REPOSITORY", help="directory of the model repository"
    )
    parser.add_argument(
        "--name", help="name of the model. Default: the name of FILE without its suffix"
    )


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    try:
        written = write_repository(arguments.model, arguments.repository, arguments.name)
    except (ValueError, OSError, ImportError) as error:
        print(f"Nothing was written. {error}", file=sys.stderr)
        return 1
    print(f"Wrote {written}.")
    return 0
