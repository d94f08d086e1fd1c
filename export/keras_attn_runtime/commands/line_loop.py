"""Runs a translator on the lines of standard input until an error, a signal or a deadline."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TextIO, TypeAlias, TypeVar

from keras_attn_runtime.errors import (
    BatchError,
    DeadlineExceeded,
    ModelFileError,
    SentenceError,
)
from keras_attn_runtime.interruption import SIGNAL, TIMED_OUT, Interruption
from keras_attn_runtime.lines import read_lines
from keras_attn_runtime.options import CallOptions
from keras_attn_runtime.progress import Progress
from keras_attn_runtime.translation import Translation
from keras_attn_runtime.translator import Translator

SUCCESS, FAILURE = 0, 1  # argparse uses 2 for a wrong command line

T = TypeVar("T", bound=Translation | None)
Translate: TypeAlias = Callable[[Translator, Iterator[str], CallOptions, ExitStack], Iterator[T]]


def run_lines(
    arguments: Namespace, translate: Translate[T], format_line: Callable[[T], str]
) -> int:
    """Writes one line to standard output for each line of standard input, in order.

    Args:
        arguments: namespace with the arguments of `add_model` and `add_line_arguments`.
        translate: function that is called as `translate(translator, lines, options, stack)`: a
            `Translator`, an iterator of lines, a dict of keyword arguments for one of its methods,
            and a `contextlib.ExitStack` for the files that the function opens. It returns an
            iterator with a `Translation` or `None` for each line.
        format_line: function that converts an item of this iterator to a line without line end.

    Returns:
        Exit status: 0 if all lines are done, 1 after an error, 124 after the deadline, 128 plus
        the number of a signal.
    """
    progress = Progress(sys.stderr, sys.stdout)
    interruption = Interruption(arguments.timeout)
    try:
        try:
            with interruption:
                _run(arguments, translate, format_line, progress, interruption)
        except Exception:
            # An extension module can replace the KeyboardInterrupt of a signal by another error.
            if interruption.number is not None:
                raise KeyboardInterrupt from None
            raise
        return SUCCESS
    except KeyboardInterrupt:
        return SIGNAL + (interruption.number or signal.SIGINT)
    except DeadlineExceeded as error:
        progress.message(
            f"error: line {error.index + 1}: not finished within --timeout={arguments.timeout:g}"
        )
        return TIMED_OUT
    except BrokenPipeError:
        return FAILURE  # the reader has closed the pipe, as in `| head`: no message is needed
    except (SentenceError, BatchError) as error:
        line = "" if error.index is None else f"line {error.index + 1}: "
        progress.message(f"error: {line}{error.reason}")
        return FAILURE
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        progress.message(f"error: {str(error) or type(error).__name__}")
        return FAILURE
    finally:
        progress.close()


def _run(
    arguments: Namespace,
    translate: Translate[T],
    format_line: Callable[[T], str],
    progress: Progress,
    interruption: Interruption,
) -> None:
    if sys.stdin is None or sys.stdout is None:
        closed = "stdin" if sys.stdin is None else "stdout"
        raise OSError(
            f"Expected standard input and standard output. Received: {closed}=None. Start the "
            "command with both."
        )
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
        # Another program may have made the stream non-blocking: lines could then be read or written
        # in part. `set_blocking` raises an error for a stream without a file descriptor and, on
        # Windows, for anything but a pipe.
        with suppress(OSError, AttributeError):
            os.set_blocking(stream.fileno(), True)
    window = arguments.window
    if window is None and sys.stdin.isatty():
        window = 1  # a user types and waits for each answer
    errors = "strict" if arguments.invalid_utf8 == "error" else "replace"
    lines = read_lines(sys.stdin.buffer, errors, translator.max_source_characters)
    lines = interruption.lines(lines)
    options: CallOptions = {
        "length_penalty": arguments.length_penalty,
        "batch_size": arguments.batch_size,
        "window": window,
        "alignments": arguments.alignments,
        "source_language": arguments.source_language,
        "target_language": arguments.target_language,
        "timeout": interruption.remaining(),
    }
    if arguments.max_length is not None:
        options["max_length"] = arguments.max_length
    with ExitStack() as stack:
        translations = translate(translator, lines, options, stack)
        for number, translation in enumerate(translations, start=1):
            interruption.hold()
            if translation is not None and translation.truncated:
                progress.message(
                    f"warning: line {number}: cut to the limits of {translator.max_source_length} "
                    f"tokens and {translator.max_source_characters} characters"
                )
            _write(sys.stdout, format_line(translation).encode() + b"\n")
            progress.advance()


def _write(stream: TextIO, line: bytes) -> None:
    """Writes a whole line; `sys.stdout.write` may write only a part if PYTHONUNBUFFERED is set."""
    if stream.isatty():  # the buffer converts UTF-8 for the Windows console
        stream.buffer.write(line)
        stream.buffer.flush()
        return
    descriptor, rest = stream.fileno(), memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
