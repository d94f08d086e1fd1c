"""Runs a model on lines or images until an error, a signal or a deadline."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TextIO, TypedDict, TypeVar

from keras_attn_runtime._calls.options import CallOptions
from keras_attn_runtime._classify.classification import Classification
from keras_attn_runtime._commands.image_directory import ImageDirectory
from keras_attn_runtime._commands.interruption import SIGNAL, TIMED_OUT, Interruption
from keras_attn_runtime._commands.lines import read_lines
from keras_attn_runtime._commands.progress import Progress
from keras_attn_runtime._errors import BatchError, DeadlineExceeded, InputError, ModelFileError
from keras_attn_runtime._generation_result import GenerationResult
from keras_attn_runtime._translate.text_model import TextModel
from keras_attn_runtime._translate.translator import Translator

M = TypeVar("M", bound=TextModel[Any])

SUCCESS, FAILURE = 0, 1  # argparse uses 2 for an invalid command line


class RunOptions(TypedDict):
    """Options of calls of a `Translator` or a `Classifier`."""

    batch_size: int
    window: int | None
    timeout: float | None


@contextmanager
def run_lines(
    arguments: Namespace, images: ImageDirectory | None = None
) -> Generator["LineCommand", None, None]:
    """Context manager for a command that writes one line to standard output per item, in order.

    It prints error messages from inside the block, and sets `LineCommand.status`.

    Args:
        arguments: namespace with the arguments from `add_model` and `add_line_arguments`.
        images: `ImageDirectory` to read. Default: lines from standard input.

    Yields:
        `LineCommand`.
    """
    command = LineCommand(arguments, images or StandardInput(arguments))
    items, progress, interruption = command.items, command.progress, command.interruption
    try:
        try:
            with command.stack:
                yield command
        except Exception:
            # An extension module can replace a signal's KeyboardInterrupt with another error.
            if interruption.number is not None:
                raise KeyboardInterrupt from None
            raise
    except KeyboardInterrupt:
        command.status = SIGNAL + (interruption.number or signal.SIGINT)
    except DeadlineExceeded as error:
        progress.message(
            f"error: {items.name(error.index)}: not finished within --timeout={arguments.timeout:g}"
        )
        command.status = TIMED_OUT
    except BrokenPipeError:
        command.status = FAILURE  # the reader closed the pipe, as in `| head`; print no message
    except (InputError, BatchError) as error:
        name = "" if error.index is None else f"{items.name(error.index)}: "
        progress.message(f"error: {name}{error.reason}")
        command.status = FAILURE
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError) as error:
        progress.message(f"error: {str(error) or type(error).__name__}")
        command.status = FAILURE
    finally:
        progress.close()


class StandardInput:
    """Lines from standard input.

    Args:
        arguments: namespace with the arguments from `add_line_arguments`.
    """

    def __init__(self, arguments: Namespace) -> None:
        self._errors = "strict" if arguments.invalid_utf8 == "error" else "replace"

    @property
    def is_interactive(self) -> bool:
        """Whether a user types the input in a terminal and waits for answers."""
        return sys.stdin.isatty()

    def open(self, report: Callable[[str], None]) -> None:
        """Prepares standard input.

        Args:
            report: function that prints a message; unused.

        Raises:
            OSError: if standard input is closed.
        """
        if sys.stdin is None:
            raise OSError(
                "Expected standard input. Received: stdin=None. Start the command with an open "
                "standard input."
            )
        # Another program may have made the stream non-blocking. Lines could then be read in part.
        # `set_blocking` raises an error for a stream without a file descriptor and, on Windows, for
        # anything but a pipe.
        with suppress(OSError, AttributeError):
            os.set_blocking(sys.stdin.fileno(), True)

    def read(self, model: TextModel[Any]) -> Iterator[str]:
        """Yields the lines; raises `InputError` for invalid UTF-8."""
        return read_lines(sys.stdin.buffer, self._errors, model.max_source_characters)

    def name(self, index: int) -> str:
        """Returns an item's name for messages, such as "line 1" for the index 0."""
        return f"line {index + 1}"


class LineCommand:
    """A command's model, input and output.

    Args:
        arguments: namespace, see `run_lines`.
        items: `StandardInput` or `ImageDirectory`.

    Attributes:
        status: int, exit status after the block: 0 if all items are done, 1 after an error, 124
            after the deadline, 128 plus the signal's number.
    """

    def __init__(self, arguments: Namespace, items: StandardInput | ImageDirectory) -> None:
        self.status: int = SUCCESS
        self.items = items
        self.progress = Progress(sys.stderr, sys.stdout)
        self.interruption = Interruption(arguments.timeout)
        self.stack = ExitStack()
        self._arguments = arguments
        self._num_written = 0

    def open(self) -> Translator:
        """Returns the translator. From now on, a signal or the deadline ends the command."""
        translator = self.open_model(Translator)
        if self._arguments.alignments and not translator.has_alignments:
            raise ModelFileError(
                "Expected a file with alignments, because of --alignments. Received: "
                f"{self._arguments.model!r}, which has none. Export it with `--alignments`, "
                "or `export_onnx(..., alignments=True)`, which needs a decoder with attention."
            )
        return translator

    def open_model(self, kind: type[M]) -> M:
        """Opens the file. From now on, a signal or the deadline ends the command.

        Args:
            kind: `Translator` or `Classifier`.
        """
        arguments = self._arguments
        self.stack.enter_context(self.interruption)
        if sys.stdout is None:
            raise OSError(
                "Expected standard output. Received: stdout=None. Start the command with an open "
                "standard output."
            )
        self.items.open(self.progress.message)
        model = kind(
            arguments.model,
            providers=[(arguments.provider, dict(arguments.provider_option))],
            num_threads=arguments.threads,
            num_workers=arguments.workers,
            max_source_length=arguments.max_source_length,
            truncate=arguments.long_lines == "truncate",
            max_source_characters=arguments.max_source_characters,
        )
        self.interruption.started()
        with suppress(OSError, AttributeError):  # see `StandardInput.open`
            os.set_blocking(sys.stdout.fileno(), True)
        self._model = model
        return model

    def read(self) -> Iterator[Any]:
        """Returns an iterator over the items: lines, or dicts with an image."""
        return self.interruption.lines(self.items.read(self._model))

    def options(self) -> RunOptions:
        """Returns the options of any call. The timeout begins now."""
        arguments = self._arguments
        window = 1 if arguments.window is None and self.items.is_interactive else arguments.window
        return {
            "batch_size": arguments.batch_size,
            "window": window,
            "timeout": self.interruption.remaining(),
        }

    def translation_options(self) -> CallOptions:
        """Returns the options of a call of a translator. The timeout begins now."""
        arguments = self._arguments
        options: CallOptions = {
            "length_penalty": arguments.length_penalty,
            "alignments": arguments.alignments,
            "source_language": arguments.source_language,
            "target_language": arguments.target_language,
            **self.options(),
        }
        if arguments.rule_input:
            options["rule_inputs"] = dict(arguments.rule_input)
        if arguments.max_length is not None:
            options["max_length"] = arguments.max_length
        return options

    def write(self, result: GenerationResult | Classification | None, line: str) -> None:
        """Writes the next item's line, with a warning if the item was truncated."""
        self.interruption.hold()
        if result is not None and result.truncated:
            self.progress.message(
                f"warning: {self.items.name(self._num_written)}: cut to the limits of "
                f"{self._model.max_source_length} tokens and "
                f"{self._model.max_source_characters} characters"
            )
        _write(sys.stdout, line.encode() + b"\n")
        self.progress.advance()
        self._num_written += 1


def _write(stream: TextIO, line: bytes) -> None:
    """Writes a whole line; `sys.stdout.write` may write only a part if PYTHONUNBUFFERED is set."""
    if stream.isatty():  # the buffer converts UTF-8 for the Windows console
        stream.buffer.write(line)
        stream.buffer.flush()
        return
    descriptor, rest = stream.fileno(), memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
