"""`keras-attn-runtime translate FILE < in.txt > out.txt`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack

from keras_attn_runtime.commands.argument_types import integer, positive_integer
from keras_attn_runtime.commands.line_arguments import EPILOG as EPILOG
from keras_attn_runtime.commands.line_arguments import add_line_arguments, add_model
from keras_attn_runtime.commands.line_loop import run_lines
from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.json_line import json_line
from keras_attn_runtime.options import CallOptions
from keras_attn_runtime.translation import Translation
from keras_attn_runtime.translator import Translator

HELP = "translate standard input, line by line"
DESCRIPTION = (
    "Translates standard input, one sentence per line, to standard output: as many lines come out "
    "as go in, in the same order. Only \\n ends a line."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the command."""
    add_model(parser)
    parser.add_argument(
        "--target-prefix",
        metavar="TEXT",
        help="beginning of every translation, such as the tag of a language. Default: none",
    )
    parser.add_argument(
        "--max-length",
        type=integer,
        metavar="N",
        help="limit of output tokens, in addition to the limit that the file derives from the "
        "input. Default: the limit in the file",
    )
    parser.add_argument(
        "--num-hypotheses",
        type=positive_integer,
        metavar="N",
        help="translations of each line, best first. Above 1, --format jsonl is needed. Default: 1",
    )
    parser.add_argument(
        "--seed",
        type=integer,
        metavar="N",
        help="seed of a search that samples: the same seed gives the same lines. Default: random",
    )
    add_line_arguments(parser)


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    if arguments.format == "text":
        # A line of text contains one translation and nothing else.
        if arguments.alignments:
            arguments.parser.error("--alignments needs --format jsonl")
        if arguments.num_hypotheses not in (None, 1):
            arguments.parser.error(
                f"--num-hypotheses {arguments.num_hypotheses} needs --format jsonl; "
                "--format text writes only the best translation"
            )

    def translate(
        translator: Translator, lines: Iterator[str], options: CallOptions, stack: ExitStack
    ) -> Iterator[Translation]:
        options |= {"num_hypotheses": arguments.num_hypotheses or 1, "seed": arguments.seed}
        return translator.translate_iterable(
            lines, target_prefix=arguments.target_prefix, **options
        )

    def format_line(translation: Translation) -> str:
        if arguments.format == "text":
            if translation.text is None:
                raise ModelFileError(
                    "Expected a file with a target tokenizer, because of --format "
                    f"text. Received: model={arguments.model!r}. Use --format jsonl, which writes "
                    "ids."
                )
            # A newline inside a translation would add a line to the output.
            return translation.text.replace("\n", " ")
        return json_line(translation, arguments.num_hypotheses is not None, arguments.alignments)

    return run_lines(arguments, translate, format_line)
