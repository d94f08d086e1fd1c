"""Command-line arguments that `translate` and `score` share."""

from argparse import ArgumentParser

from keras_attn_runtime.commands.argument_types import (
    key_and_value,
    number,
    positive_integer,
)

EPILOG = (
    "Exit status: 0 all lines done; 1 stopped by an error (if a line caused it, all lines before "
    "it are done); 2 wrong command line; 124 stopped by --timeout (all lines before the first "
    "unfinished one are done); 130 interrupted by Ctrl-C, 143 by SIGTERM (whole windows are done)."
)


def add_model(parser: ArgumentParser) -> None:
    """Adds the path of the exported file."""
    parser.add_argument(
        "model",
        metavar="FILE",
        help="ONNX file exported by keras-attn, or the directory with model.onnx",
    )


def add_line_arguments(parser: ArgumentParser) -> None:
    """Adds the options about the output, the device and the limits."""
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
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="one line of text, or one JSON object, for each line. Default: %(default)s",
    )
    add(
        "--alignments",
        action="store_true",
        help="include the attention weights. Needs --format jsonl",
    )
    add(
        "--batch-size",
        type=positive_integer,
        default=32,
        metavar="N",
        help="sentences in one batch. Default: %(default)s",
    )
    add(
        "--window",
        type=positive_integer,
        metavar="N",
        help="sentences that are read ahead and sorted by length. Default: 16 batches, or 1 if "
        "the input is a terminal",
    )
    add(
        "--threads",
        type=positive_integer,
        metavar="N",
        help="CPU threads of each worker. Default: all cores that the process may use, divided "
        "by the number of workers",
    )
    add(
        "--workers",
        type=positive_integer,
        default=1,
        metavar="N",
        help="batches that run at the same time. Default: %(default)s",
    )
    add(
        "--provider",
        default="cpu",
        metavar="NAME",
        help="cpu, cuda or another execution provider of ONNX Runtime. Default: %(default)s",
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
        help="limit of input tokens of a line. Default: %(default)s",
    )
    add(
        "--max-source-characters",
        type=positive_integer,
        metavar="N",
        help="limit of input characters of a line, before the tokenizer. Default: 32 times the "
        "limit of tokens",
    )
    add(
        "--long-lines",
        choices=("truncate", "error"),
        default="truncate",
        help="truncate lines above these limits with a warning, or stop. Default: %(default)s",
    )
    add(
        "--invalid-utf8",
        choices=("error", "replace"),
        default="error",
        help="stop at invalid UTF-8, or replace it by U+FFFD. Default: %(default)s",
    )
    add(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help="limit of the whole command, including loading the model and waiting for lines. "
        "Default: no limit",
    )
