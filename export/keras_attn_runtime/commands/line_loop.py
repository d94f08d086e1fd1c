"""Runs a translator on lines or images until an error, a signal or a deadline."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, Protocol, TextIO, TypeAlias, TypeVar

from keras_attn_runtime.calls.options import CallOptions
from keras_attn_runtime.commands.interruption import SIGNAL, TIMED_OUT, Interruption
from keras_attn_runtime.commands.progress import Progress
from keras_attn_runtime.commands.standard_input import StandardInput
from keras_attn_runtime.errors import (
    BatchError,
    DeadlineExceeded,
    ModelFileError,
    SentenceError,
)
from keras_attn_runtime.translate.translator import Translator
from keras_attn_runtime.translation import Translation

SUCCESS, FAILURE = 0, 1  # argparse uses 2 for an invalid command line

T = TypeVar("T", bound=Translation | None)
Translate: TypeAlias = Callable[[Translator, Iterator[Any], CallOptions, ExitStack], Iterator[T]]


class Items(Protocol):
    """The input of a command. The command writes one line for each item of the input."""

    @property
    def is_interactive(self) -> bool: ...

    def open(self, report: Callable[[str], None]) -> None: ...

    def read(self, translator: Translator) -> Iterator[Any]: ...

    def name(self, index: int) -> str: ...


def run_lines(
    arguments: Namespace,
    translate: Translate[T],
    format_line: Callable[[T], str],
    items: Items | None = None,
) -> int:
    """Writes one line to standard output for each item, in order.

    Args:
        arguments: namespace with the arguments of `add_model` and `add_line_arguments`.
        translate: function that is called as `translate(translator, items, options, stack)` with a
            `Translator`, an iterator of items, a dict of keyword arguments for a method of the
            translator, and a `contextlib.ExitStack` for the files that the function opens. It
            returns an iterator with a `Translation` or `None` for each item.
        format_line: function that converts each of these results to a string without a newline.
        items: `Items` to process. Default: the lines of standard input.

    Returns:
        Exit status: 0 if all items are done, 1 after an error, 124 after the deadline, 128 plus
        the number of a signal.
    """
    items = items or StandardInput(arguments)
    progress = Progress(sys.stderr, sys.stdout)
    interruption = Interruption(arguments.timeout)
    try:
        try:
            with interruption:
                _run(arguments, translate, format_line, items, progress, interruption)
        except Exception:
            # An extension module can replace the KeyboardInterrupt of a signal with another error.
            if interruption.number is not None:
                raise KeyboardInterrupt from None
            raise
        return SUCCESS
    except KeyboardInterrupt:
        return SIGNAL + (interruption.number or signal.SIGINT)
    except DeadlineExceeded as error:
        progress.message(
            f"error: {items.name(error.index)}: not finished within --timeout={arguments.timeout:g}"
        )
        return TIMED_OUT
    except BrokenPipeError:
        return FAILURE  # the reader closed the pipe, as in `| head`; print no message
    except (SentenceError, BatchError) as error:
        name = "" if error.index is None else f"{items.name(error.index)}: "
        progress.message(f"error: {name}{error.reason}")
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
    items: Items,
    progress: Progress,
    interruption: Interruption,
) -> None:
    if sys.stdout is None:
        raise OSError(
            "Expected standard output. Received: stdout=None. Start the command with an open "
            "standard output."
        )
    items.open(progress.message)
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
    with suppress(OSError, AttributeError):  # see `StandardInput.open`
        os.set_blocking(sys.stdout.fileno(), True)
    window = arguments.window
    if window is None and items.is_interactive:
        window = 1
    lines = interruption.lines(items.read(translator))
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
        for number, translation in enumerate(translations):
            interruption.hold()
            if translation is not None and translation.truncated:
                progress.message(
                    f"warning: {items.name(number)}: cut to the limits of "
                    f"{translator.max_source_length} tokens and "
                    f"{translator.max_source_characters} characters"
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
