import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Self, TypeAlias, TypeVar

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None

TIMED_OUT = 124  # the exit status of the command `timeout`
SIGNAL = 128  # and the signal's number, as in a shell

GRACE = 0.5
"""Seconds in which the main thread must write a line or end, after a signal or the deadline."""


class Interruption:
    """Lets Ctrl-C (SIGINT), SIGTERM and a deadline end the command, between two lines if possible.

    As a context manager it handles the two signals. Until `started` the system ends the process,
    because nothing can be lost. Process 1 of a container is the exception: for it the system
    ignores signals without a handler. Then, while lines are read and translated, a signal raises
    KeyboardInterrupt. What is translated already is written first: after `hold` a signal waits
    until the next line is asked for. A second signal ends the process at once.

    The main thread may be where no exception reaches it: it loads a model, or the reader of the
    output has stopped reading. So after the first signal or the deadline another thread ends the
    process, once the main thread has done nothing for half a second. After the deadline it writes
    one line to standard error first; a signal needs none. It needs the lock of the
    interpreter, which ONNX Runtime releases while it loads and runs; SentencePiece keeps it, and so
    does the system while it loads a library.

    Args:
        timeout: float, seconds from now to the deadline. Default: none.

    Attributes:
        number: int, the signal that came, or None.
    """

    def __init__(self, timeout: float | None = None) -> None:
        self.number: int | None = None
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._held = False
        self._num_lines = 0
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            # A shell lets its background jobs ignore Ctrl-C, and so do these.
            if signal.getsignal(number) is not signal.SIG_IGN:
                early = self._handle if os.getpid() == 1 else signal.SIG_DFL
                self._before[number] = signal.signal(number, early)
        # The system writes the number of each signal there, whatever the main thread does.
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._previous = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="keras-attn-watch", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.number is not None:
            return  # the process ends, and the other thread sees to it
        signal.set_wakeup_fd(self._previous)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._sender.send(b"\0")
        self._watcher.join()
        self._sender.close()
        self._receiver.close()

    def started(self) -> None:
        """Handles the signals from now on, because there will be output."""
        for number in self._before:
            if self.number is None:
                signal.signal(number, self._handle)

    def remaining(self) -> float | None:
        """Returns the seconds to the deadline, at least 0, or `None` without one."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def hold(self) -> None:
        """Makes a signal wait until the next of `lines` is asked for."""
        self._held = True
        self._num_lines += 1

    def lines(self, lines: Iterable[T]) -> Iterator[T]:
        """Yields the lines of an iterable until a signal comes, then raises KeyboardInterrupt."""
        iterator = iter(lines)
        while True:
            self._held = False
            if self.number is not None:
                raise KeyboardInterrupt
            try:
                line = next(iterator)
            except StopIteration:
                return
            yield line

    def _handle(self, number: int, frame: FrameType | None) -> None:
        for handled in self._before:
            signal.signal(handled, signal.SIG_DFL)
        self.number = number
        if not self._held:
            raise KeyboardInterrupt

    def _watch(self) -> None:
        number = self._wait(self.remaining())
        num_lines = None
        while number != 0 and num_lines != self._num_lines:
            num_lines = self._num_lines
            if self._wait(GRACE, of_signals=False) == 0:
                return
        if number is None:
            _write_error(f"error: not finished within --timeout={self._timeout:g}\n")
            os._exit(TIMED_OUT)
        if number != 0:
            os._exit(SIGNAL + number)

    def _wait(self, seconds: float | None, of_signals: bool = True) -> int | None:
        """Returns the number of the signal that came, 0 at the end of the block, None in time."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            if not select.select([self._receiver], [], [], left)[0]:
                return None
            for number in self._receiver.recv(1):
                if number == 0 or (of_signals and number in self._before):
                    return number


def _write_error(text: str) -> None:
    """Writes to standard error, unless it stays blocked for `GRACE` seconds.

    It writes to the descriptor, because the main thread may hold the lock of `sys.stderr`.
    """

    def write() -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):  # closed, or no descriptor
            os.write(sys.stderr.fileno(), text.encode())

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(GRACE)
