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

TIMED_OUT = 124  # exit status after a timeout, as in the command `timeout`
SIGNAL = 128  # the exit status after signal number n is SIGNAL + n, as in a shell

GRACE = 0.5
"""Seconds after a signal or the deadline in which the main thread must write a line or end."""


class Interruption:
    """Context manager that ends the command at SIGINT (Ctrl-C), SIGTERM or a deadline.

    Before `started` is called, a signal ends the process at once, because there is no output yet.
    Process 1 in a container is an exception: the system ignores its signals without a handler.
    There, the handlers are installed at the start, and a signal raises KeyboardInterrupt. After
    `started`, a signal raises KeyboardInterrupt while lines are read or translated. While
    translated lines are written, that is, between `hold` and the request for the next line, a
    signal raises KeyboardInterrupt only at that request. A second signal ends the process at once.

    An exception cannot interrupt the main thread while it loads a model or writes to a full pipe.
    Therefore a watcher thread ends the process if, after the first signal or the deadline, the main
    thread writes no line for `GRACE` seconds. At the deadline, it also writes an error message to
    standard error. The watcher thread needs the global interpreter lock. ONNX Runtime releases this
    lock while it loads or runs a model. SentencePiece holds it, and so does Python while it loads a
    shared library.

    Args:
        timeout: float, seconds from now to the deadline. Default: no deadline.

    Attributes:
        number: int, number of the received signal, or `None`.
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
            # A shell starts background jobs with SIGINT ignored. The jobs must keep ignoring it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                early = self._handle if os.getpid() == 1 else signal.SIG_DFL
                self._before[number] = signal.signal(number, early)
        # Each signal's number is written to this socket even if the main thread is blocked.
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._previous = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="keras-attn-watch", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.number is not None:
            return  # the watcher thread must keep running, to end the process
        signal.set_wakeup_fd(self._previous)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._sender.send(b"\0")
        self._watcher.join()
        self._sender.close()
        self._receiver.close()

    def started(self) -> None:
        """Installs the signal handlers. Call this method before the first output."""
        for number in self._before:
            if self.number is None:
                signal.signal(number, self._handle)

    def remaining(self) -> float | None:
        """Returns the seconds to the deadline, at least 0, or `None` without one."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def hold(self) -> None:
        """Delays a KeyboardInterrupt until the caller requests the next input line.

        Call this method before each output line is written.
        """
        self._held = True
        self._num_lines += 1

    def lines(self, lines: Iterable[T]) -> Iterator[T]:
        """Yields an iterable's lines; raises KeyboardInterrupt after a signal."""
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
        """Returns a signal's number, 0 when the `with` block ends, or None after `seconds`."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            if not select.select([self._receiver], [], [], left)[0]:
                return None
            for number in self._receiver.recv(1):
                if number == 0 or (of_signals and number in self._before):
                    return number


def _write_error(text: str) -> None:
    """Writes to standard error, and gives up if the write blocks for `GRACE` seconds.

    It uses the file descriptor, because the main thread may hold the lock of `sys.stderr`.
    """

    def write() -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):  # closed, or no descriptor
            os.write(sys.stderr.fileno(), text.encode())

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(GRACE)
