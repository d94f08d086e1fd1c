"""`keras-attn-runtime score FILE TRANSLATIONS < in.txt > log_probs.txt`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from keras_attn_runtime._commands.argument_types import integer
from keras_attn_runtime._commands.json_line import json_line
from keras_attn_runtime._commands.line_arguments import EPILOG as EPILOG
from keras_attn_runtime._commands.line_arguments import add_model, add_translation_arguments
from keras_attn_runtime._commands.line_command import run_lines
from keras_attn_runtime._commands.lines import read_lines
from keras_attn_runtime._errors import InputError
from keras_attn_runtime._generation_result import GenerationResult

HELP = "write the log probabilities of given translations"
DESCRIPTION = (
    "Reads sources from standard input and their translations from a file, line by line. Writes "
    "the log probability (natural logarithm) of each translation, including the end token. FILE "
    "must be exported with --accept-target-prefix."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_model(parser)
    parser.add_argument(
        "translations", metavar="TRANSLATIONS", help="text file with one translation per line"
    )
    parser.add_argument(
        "--skip-unscorable",
        action="store_true",
        help="write nan (jsonl: null) instead of stopping at an empty source or at a translation "
        "that exceeds the limit of the file",
    )
    parser.add_argument(
        "--max-length",
        type=integer,
        metavar="N",
        help="maximum number of tokens of a translation, including the end token. Default: only "
        "the limits of the file apply",
    )
    add_translation_arguments(parser)


def run(arguments: Namespace) -> int:
    """Runs the command and returns the exit status."""
    if arguments.format == "text" and arguments.alignments:
        arguments.parser.error("--alignments needs --format jsonl")

    errors = "strict" if arguments.invalid_utf8 == "error" else "replace"
    with run_lines(arguments) as command:
        translator = command.open()
        with open(arguments.translations, "rb") as file:
            targets = read_lines(file, errors, translator.max_target_characters)
            targets = _with_file_name(arguments.translations, targets)
            for translation in translator.score_iterable(
                command.read(), targets, arguments.skip_unscorable, **command.translation_options()
            ):
                command.write(translation, _line(translation, arguments))
    return command.status


def _line(translation: GenerationResult | None, arguments: Namespace) -> str:
    """Returns an output line, without the newline."""
    if translation is None:
        return "null" if arguments.format == "jsonl" else "nan"
    if arguments.format == "jsonl":
        return json_line(translation, alignments=arguments.alignments)
    return f"{translation.log_prob:.6f}"


def _with_file_name(name: str, lines: Iterator[str]) -> Iterator[str]:
    """Yields a file's lines; adds the file name to their `InputError`s."""
    try:
        yield from lines
    except InputError as error:
        raise InputError(error.index, f"{name}: {error.reason}") from error
