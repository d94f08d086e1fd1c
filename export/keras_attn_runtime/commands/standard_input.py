import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress

from keras_attn_runtime.commands.lines import read_lines
from keras_attn_runtime.translate.translator import Translator


class StandardInput:
    """The lines of standard input.

    Args:
        arguments: namespace with the arguments of `add_line_arguments`.
    """

    def __init__(self, arguments: Namespace) -> None:
        self._errors = "strict" if arguments.invalid_utf8 == "error" else "replace"

    @property
    def is_interactive(self) -> bool:
        """Whether the input is a terminal, so that a user waits for each answer."""
        return sys.stdin.isatty()

    def open(self, report: Callable[[str], None]) -> None:
        """Prepares standard input.

        Args:
            report: function that prints a message. It is not used.

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

    def read(self, translator: Translator) -> Iterator[str]:
        """Yields the lines; raises `SentenceError` for invalid UTF-8."""
        return read_lines(sys.stdin.buffer, self._errors, translator.max_source_characters)

    def name(self, index: int) -> str:
        """Returns the name of an item in messages, such as "line 1" for the index 0."""
        return f"line {index + 1}"
