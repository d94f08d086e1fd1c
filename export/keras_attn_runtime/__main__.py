"""The command: `python -m keras_attn_runtime model.onnx < in.txt > out.txt`."""

import argparse
import os
import sys

from keras_attn_runtime.errors import SentenceError
from keras_attn_runtime.lines import read_lines
from keras_attn_runtime.progress import Progress
from keras_attn_runtime.translator import Translator

SUCCESS, FAILURE, INTERRUPTED = 0, 1, 130  # and 2, argparse's, for a wrong command line


def build_parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attn_runtime",
        description="Translates standard input, one sentence a line, to standard output: as many "
        "lines come out as go in, in the same order. Only \\n ends a line.",
        epilog="Exit status: 0 all translated; 1 stopped by an error, with every line before it "
        "translated; 2 wrong command line; 130 interrupted, with whole windows translated.",
    )
    parser.add_argument("model", help="ONNX file exported by keras_attn")
    parser.add_argument(
        "--batch-size",
        type=positive_integer,
        default=32,
        metavar="N",
        help="sentences at once (%(default)s)",
    )
    parser.add_argument(
        "--window",
        type=positive_integer,
        metavar="N",
        help="sentences read ahead and sorted by length (16 batches; 1 on a terminal)",
    )
    parser.add_argument(
        "--max-length", type=integer, metavar="N", help="limit of output tokens (the file's)"
    )
    parser.add_argument(
        "--length-penalty",
        type=number,
        metavar="A",
        help="exponent of the length in the score (the file's)",
    )
    parser.add_argument(
        "--threads", type=positive_integer, metavar="N", help="CPU threads (all cores)"
    )
    parser.add_argument(
        "--provider",
        default="cpu",
        help="cpu, cuda or another provider of ONNX Runtime (%(default)s)",
    )
    parser.add_argument(
        "--max-source-length",
        type=positive_integer,
        default=512,
        metavar="N",
        help="limit of input tokens (%(default)s)",
    )
    parser.add_argument(
        "--long-lines",
        choices=("truncate", "error"),
        default="truncate",
        help="what to do with longer lines: cut them with a warning, or stop (%(default)s)",
    )
    parser.add_argument(
        "--invalid-utf8",
        choices=("error", "replace"),
        default="error",
        help="what to do with invalid UTF-8: stop, or read U+FFFD in its place (%(default)s)",
    )
    return parser


def main(arguments=None):
    """Runs the command and returns its exit status."""
    arguments = build_parser().parse_args(arguments)
    progress = Progress(sys.stderr)
    try:
        _translate(arguments, progress)
        return SUCCESS
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return FAILURE  # the reader has gone, as in `| head`: nobody is left to tell
    except SentenceError as error:
        progress.message(f"error: line {error.index + 1}: {error.reason}")
        return FAILURE
    except (ValueError, OSError, ImportError) as error:
        progress.message(f"error: {error}")
        return FAILURE
    finally:
        progress.close()
        _close(sys.stdout)


def _translate(arguments, progress):
    translator = Translator(
        arguments.model,
        providers=arguments.provider,
        num_threads=arguments.threads,
        max_source_length=arguments.max_source_length,
        truncate=arguments.long_lines == "truncate",
    )
    window = arguments.window
    if window is None and sys.stdin.isatty():
        window = 1  # somebody types and waits for the answer
    errors = "strict" if arguments.invalid_utf8 == "error" else "replace"
    translations = translator.translate_iterable(
        read_lines(sys.stdin.buffer, errors),
        max_length=arguments.max_length,
        length_penalty=arguments.length_penalty,
        batch_size=arguments.batch_size,
        window=window,
    )
    for number, translation in enumerate(translations, start=1):
        if translation.truncated:
            progress.message(
                f"warning: line {number}: cut to its first {arguments.max_source_length} tokens"
            )
        # A model whose vocabulary has newlines must not add lines.
        line = translation.text.replace("\n", " ")
        sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.buffer.flush()
        progress.advance()


def _close(stream):
    """Flushes; if that fails, keeps the interpreter from trying again on its way out."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def positive_integer(text):
    return _at_least(1, int(text))


def integer(text):
    return _at_least(0, int(text))


def number(text):
    return _at_least(0.0, float(text))


def _at_least(least, value):
    if not least <= value < 2**31:  # false for nan too
        raise argparse.ArgumentTypeError(f"expected a number of at least {least}, received {value}")
    return value


if __name__ == "__main__":
    sys.exit(main())
