"""The command: `python -m keras_attn_runtime model.onnx < in.txt > out.txt`."""

import argparse
import os
import sys
from contextlib import ExitStack, suppress

from keras_attn_runtime.errors import (
    BatchError,
    DeadlineExceeded,
    ModelFileError,
    SentenceError,
)
from keras_attn_runtime.interruption import SIGNAL, TIMED_OUT, Interruption
from keras_attn_runtime.json_line import json_line
from keras_attn_runtime.lines import read_lines
from keras_attn_runtime.options import LARGEST_INT32
from keras_attn_runtime.progress import Progress
from keras_attn_runtime.translator import Translator

SUCCESS, FAILURE = 0, 1  # 2 is argparse's, for a wrong command line


def build_parser():
    parser = argparse.ArgumentParser(
        prog="python -m keras_attn_runtime",
        description="Translates standard input, one sentence a line, to standard output: as many "
        "lines come out as go in, in the same order. Only \\n ends a line.",
        epilog="Exit status: 0 all translated; 1 stopped by an error, with every line before it "
        "translated if a line is to blame; 2 wrong command line; 124 stopped by --timeout, with "
        "every line before the first unfinished one; 130 interrupted by Ctrl-C, 143 by SIGTERM, "
        "with whole windows translated.",
    )
    parser.add_argument(
        "model", help="ONNX file exported by keras_attn, or the directory with model.onnx"
    )
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
        "--max-length",
        type=integer,
        metavar="N",
        help="limit of output tokens, besides the one that the file derives from the input "
        "(the file's)",
    )
    parser.add_argument(
        "--length-penalty",
        type=number,
        metavar="A",
        help="exponent of the length in the score (the file's)",
    )
    parser.add_argument(
        "--target-prefix",
        metavar="TEXT",
        help="what every translation begins with, such as the tag of a language",
    )
    parser.add_argument(
        "--seed",
        type=integer,
        metavar="N",
        help="of a file that draws at random: the same lines are drawn again (random)",
    )
    parser.add_argument(
        "--score",
        metavar="FILE",
        help="write how probable the translations in FILE are, line by line, instead of "
        "translating: the natural logarithm, the end token included",
    )
    parser.add_argument(
        "--skip-unscorable",
        action="store_true",
        help="with --score: write nan (jsonl: null) for a line without a source, and for a "
        "translation that is longer than the file allows, instead of stopping there",
    )
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="a line of text, or a JSON object in a line, for each line (%(default)s)",
    )
    parser.add_argument(
        "--num-hypotheses",
        type=positive_integer,
        metavar="N",
        help="translations of each line, best first; jsonl only",
    )
    parser.add_argument(
        "--alignments", action="store_true", help="with attention weights; jsonl only"
    )
    parser.add_argument(
        "--threads",
        type=positive_integer,
        metavar="N",
        help="CPU threads of each worker (all cores that it may use, divided by the workers)",
    )
    parser.add_argument(
        "--workers",
        type=positive_integer,
        default=1,
        metavar="N",
        help="batches translated at once (%(default)s)",
    )
    parser.add_argument(
        "--provider",
        default="cpu",
        help="cpu, cuda or another provider of ONNX Runtime (%(default)s)",
    )
    parser.add_argument(
        "--provider-option",
        type=key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for the provider, as in device_id=1; can be repeated",
    )
    parser.add_argument(
        "--max-source-length",
        type=positive_integer,
        default=512,
        metavar="N",
        help="limit of input tokens (%(default)s)",
    )
    parser.add_argument(
        "--max-source-characters",
        type=positive_integer,
        metavar="N",
        help="limit of input characters, before the tokenizer (32 times the limit of tokens)",
    )
    parser.add_argument(
        "--timeout",
        type=number,
        metavar="SECONDS",
        help="limit of the whole command, with loading the model and waiting for lines (none)",
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
    arguments = _parse(arguments)
    progress = Progress(sys.stderr, sys.stdout)
    interruption = Interruption(arguments.timeout)
    try:
        try:
            with interruption:
                _translate(arguments, progress, interruption)
        except Exception:
            # Where a signal comes in an extension module, it can make another error of it.
            if interruption.number is not None:
                raise KeyboardInterrupt from None
            raise
        return SUCCESS
    except KeyboardInterrupt:
        return SIGNAL + interruption.number
    except DeadlineExceeded as error:
        progress.message(
            f"error: line {error.index + 1}: not finished within --timeout={arguments.timeout:g}"
        )
        return TIMED_OUT
    except BrokenPipeError:
        return FAILURE  # the reader has gone, as in `| head`: nobody is left to tell
    except (SentenceError, BatchError) as error:
        progress.message(f"error: line {error.index + 1}: {error.reason}")
        return FAILURE
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        progress.message(f"error: {str(error) or type(error).__name__}")
        return FAILURE
    finally:
        progress.close()


def _parse(arguments):
    parser = build_parser()
    arguments = parser.parse_args(arguments)
    if arguments.format == "text":
        # A line of text has room for one translation and nothing about it.
        if arguments.alignments:
            parser.error("--alignments needs --format jsonl")
        if arguments.num_hypotheses not in (None, 1):
            parser.error(
                f"--num-hypotheses {arguments.num_hypotheses} needs --format jsonl; "
                "--format text writes the best translation alone"
            )
    if arguments.skip_unscorable and arguments.score is None:
        parser.error("--skip-unscorable needs --score")
    if arguments.score is not None and arguments.target_prefix is not None:
        parser.error("--score is of whole translations: leave --target-prefix out")
    return arguments


def _translate(arguments, progress, interruption):
    if sys.stdin is None or sys.stdout is None:
        raise OSError("Expected standard input and standard output. Received: one that is closed.")
    translator = Translator(
        arguments.model,
        providers=[(arguments.provider, dict(arguments.provider_option))],
        num_threads=arguments.threads,
        num_workers=arguments.workers,
        max_source_length=arguments.max_source_length,
        truncate=arguments.long_lines == "truncate",
        max_source_characters=arguments.max_source_characters,
    )
    interruption.started()
    if arguments.alignments and not translator.has_alignments:
        raise ModelFileError(
            "Expected a file with alignments, because of --alignments. Received: "
            f"{arguments.model!r}, which has none. Export it with `--alignments`, "
            "or `export_onnx(..., alignments=True)`, which needs a decoder with attention."
        )
    for stream in (sys.stdin, sys.stdout):
        # What another program left non-blocking gives parts of lines, and takes parts of them.
        # Some streams have no descriptor, and Windows knows only pipes as non-blocking, or none.
        with suppress(OSError, AttributeError):
            os.set_blocking(stream.fileno(), True)
    window = arguments.window
    if window is None and sys.stdin.isatty():
        window = 1  # somebody types and waits for the answer
    errors = "strict" if arguments.invalid_utf8 == "error" else "replace"
    lines = read_lines(sys.stdin.buffer, errors, translator.max_source_characters)
    lines = interruption.lines(lines)
    options = {
        "length_penalty": arguments.length_penalty,
        "num_hypotheses": arguments.num_hypotheses or 1,
        "batch_size": arguments.batch_size,
        "window": window,
        "alignments": arguments.alignments,
        "seed": arguments.seed,
        "timeout": interruption.remaining(),
    }
    if arguments.max_length is not None:
        options["max_length"] = arguments.max_length
    with ExitStack() as stack:
        if arguments.score is None:
            translations = translator.translate_iterable(
                lines, target_prefix=arguments.target_prefix, **options
            )
        else:
            targets = stack.enter_context(open(arguments.score, "rb"))
            most = translator.max_target_characters
            targets = _lines_of(arguments.score, read_lines(targets, errors, most))
            translations = translator.score_iterable(
                lines, targets, arguments.skip_unscorable, **options
            )
        _write_all(translations, arguments, translator, progress, interruption)


def _lines_of(name, lines):
    """Yields lines of a second file, whose errors have to name it."""
    try:
        yield from lines
    except SentenceError as error:
        raise SentenceError(error.index, f"{name}: {error.reason}") from error


def _write_all(translations, arguments, translator, progress, interruption):
    for number, translation in enumerate(translations, start=1):
        interruption.hold()
        if translation is not None and translation.truncated:
            progress.message(
                f"warning: line {number}: cut to the limits of {translator.max_source_length} "
                f"tokens and {translator.max_source_characters} characters"
            )
        if translation is None:  # a pair that cannot be scored
            line = "nan" if arguments.format == "text" else "null"
        elif arguments.format == "text" and arguments.score is not None:
            line = f"{translation.log_prob:.6f}"
        elif arguments.format == "text":
            # A model whose vocabulary has newlines must not add lines.
            line = translation.text.replace("\n", " ")
        else:
            line = json_line(
                translation, arguments.num_hypotheses is not None, arguments.alignments
            )
        _write(sys.stdout, line.encode() + b"\n")
        progress.advance()


def _write(stream, line):
    """Writes a whole line, also where PYTHONUNBUFFERED makes sys.stdout write what just fits."""
    if stream.isatty():  # Python knows how to write UTF-8 to the console of Windows
        stream.buffer.write(line)
        stream.buffer.flush()
        return
    descriptor, line = stream.fileno(), memoryview(line)
    while line:
        line = line[os.write(descriptor, line) :]


def positive_integer(text):
    return _at_least(1, int(text))


def integer(text):
    return _at_least(0, int(text))


def number(text):
    return _at_least(0.0, float(text))


def key_and_value(text):
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(
            f"expected KEY=VALUE, as in device_id=1, received {text!r}"
        )
    return key, value


def _at_least(least, value):
    if not least <= value <= LARGEST_INT32:  # false for nan too
        raise argparse.ArgumentTypeError(
            f"expected a number in [{least}, {LARGEST_INT32}], received {value}"
        )
    return value


def run():
    """Runs the command and ends the process."""
    status = main()
    if status >= TIMED_OUT:
        # At once: a thread may wait for a line, or for an operator to end. All output is written.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    run()
