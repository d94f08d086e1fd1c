"""`python -m keras_attn_runtime` runs `keras-attn-runtime`; FILE alone means `translate FILE`."""

import sys
from collections.abc import Sequence

from keras_attn_runtime._commands import main as program


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, by default with the command `translate`; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    first_words = (*program.COMMANDS, "--version", "--help", "-h")
    if arguments and arguments[0] not in first_words:
        arguments = ["translate", *arguments]
    return program.main(arguments)


def run() -> None:
    """Runs a command line and ends the process."""
    program.end_process(main())


if __name__ == "__main__":
    run()
