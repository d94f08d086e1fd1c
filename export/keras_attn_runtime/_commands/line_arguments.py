"""Command-line arguments shared by `translate`, `score` and `classify`."""

from argparse import ArgumentParser

from keras_attn_runtime._commands.argument_types import (
    key_and_value,
    number,
    positive_integer,
    rule_input,
)

EPILOG = (
    "Exit status: 0 all lines are done; 1 stopped by an error (if a line caused it, all lines "
    "before this line are done); 2 invalid command line; 124 stopped by --timeout (all lines "
    "before the first unfinished line are done); 130 stopped by Ctrl-C or 143 by SIGTERM (complete "
    "windows are done)."
)


def add_model(parser: ArgumentParser) -> None:
    """Adds the exported file's path."""
    parser.add_argument(
        "model",
        metavar="FILE",
        help="ONNX or LiteRT (.tflite) file exported by keras-attn, or the directory with "
        "model.onnx",
    )


def add_translation_arguments(parser: ArgumentParser) -> None:
    """Adds options of the search, and those of `add_line_arguments`."""
    add = parser.add_argument
    add(
        "--length-penalty",
        type=number,
        metavar="A",
        help="exponent of the length in the score. Default: the exponent in the file",
    )
    add(
        "--from",
        dest="source_language",
        metavar="LANGUAGE",
        help="language of the input, for a file with several languages. Default: the language in "
        "the file",
    )
    add(
        "--to",
        dest="target_language",
        metavar="LANGUAGE",
        help="language of the translations, for a file with several languages. Default: the "
        "language in the file",
    )
    add(
        "--rule-input",
        type=rule_input,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="number, or numbers separated by commas, for an input of a rule of the search, such "
        "as most=2. Can be repeated. Default: the values in the file",
    )
    add(
        "--alignments",
        action="store_true",
        help="write the attention weights. Needs --format jsonl",
    )
    add_line_arguments(parser)


def add_line_arguments(parser: ArgumentParser) -> None:
    """Adds options for output, device and limits."""
    add = parser.add_argument
    add(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="write a line of text or a JSON object for each line. Default: %(default)s",
    )
    add(
        "--batch-size",
        type=positive_integer,
        default=32,
        metavar="N",
        help="maximum number of sentences in a batch; a file with a fixed batch size runs at most "
        "that number. Default: %(default)s",
    )
    add(
        "--window",
        type=positive_integer,
        metavar="N",
        help="number of sentences to read ahead and sort by length. Default: 16 batches, or 1 if "
        "the input is a terminal",
    )
    add(
        "--threads",
        type=positive_integer,
        metavar="N",
        help="CPU threads of each worker. Default: the cores available to the process, divided by "
        "the number of workers",
    )
    add(
        "--workers",
        type=positive_integer,
        default=1,
        metavar="N",
        help="number of batches to run at the same time. Default: %(default)s",
    )
    add(
        "--provider",
        default="cpu",
        metavar="NAME",
        help="cpu, cuda or another execution provider of ONNX Runtime; LiteRT files need cpu. "
        "Default: %(default)s",
    )
    add(
        "--provider-option",
        type=key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the provider, such as device_id=1. Can be repeated. Default: none",
    )
    add(
        "--max-source-length",
        type=positive_integer,
        default=512,
        metavar="N",
        help="maximum number of input tokens of a line. Default: %(default)s",
    )
    add(
        "--max-source-characters",
        type=positive_integer,
        metavar="N",
        help="maximum number of input characters of a line, applied before tokenization. Default: "
        "32 times the maximum number of tokens",
    )
    add(
        "--long-lines",
        choices=("truncate", "error"),
        default="truncate",
        help="truncate lines above --max-source-length or --max-source-characters with a warning, "
        "or stop with an error. Default: %(default)s",
    )
    add(
        "--invalid-utf8",
        choices=("error", "replace"),
        default="error",
        help="stop at invalid UTF-8, or replace it with U+FFFD. Default: %(default)s",
    )
    add(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help="time limit of the whole command, including loading the model and waiting for input. "
        "LiteRT cannot be cancelled: the command ends without waiting for the batch that LiteRT is "
        "running. Default: no limit",
    )
