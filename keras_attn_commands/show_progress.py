"""Shows the progress of a command on standard error."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TextIO

from keras_attn_checks.progress import LOGGER

_ERASE = "\r\x1b[K"
"""Moves to the start of the line of a terminal and erases the line."""


class ProgressHandler(logging.Handler):
    """Writes a line for each phase and, to a terminal, the count of the present phase.

    Args:
        stream: Text stream.
        is_terminal: Bool, whether the stream is a terminal. Each count then replaces the last one.
    """

    def __init__(self, stream: TextIO, is_terminal: bool) -> None:
        super().__init__(logging.DEBUG if is_terminal else logging.INFO)
        self._stream = stream
        self._has_count = False

    def emit(self, record: logging.LogRecord) -> None:
        is_count = record.levelno < logging.INFO
        start = _ERASE if self._has_count else ""
        end = "" if is_count else "\n"
        self._stream.write(f"{start}{'  ' if is_count else ''}{record.getMessage()}{end}")
        self._stream.flush()
        self._has_count = is_count

    def close(self) -> None:
        """Erases the last count."""
        if self._has_count:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._has_count = False
        super().close()


@contextlib.contextmanager
def show_progress() -> Iterator[None]:
    """Context manager that shows the messages of `keras_attn_checks.progress`."""
    handler = ProgressHandler(sys.stderr, sys.stderr.isatty())
    level, propagates = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(handler.level)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagates
        handler.close()
