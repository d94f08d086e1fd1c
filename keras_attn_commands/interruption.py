"""Ctrl-C in a command."""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in a shell."""
_SECONDS = 0.3
"""Seconds after which Ctrl-C is repeated, if the interrupted code ignored it."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Context manager that ends with a `KeyboardInterrupt` soon after Ctrl-C.

    C++ code that calls Python replaces a `KeyboardInterrupt` by an error of its own, and an
    interrupted import can look like a missing module: such errors become a `KeyboardInterrupt`.
    Other code, such as a callback of the garbage collector or a bare `except`, swallows the
    `KeyboardInterrupt`: it is raised again until it leaves the block.
    """
    # Background jobs of a shell ignore SIGINT, and only the main thread can set handlers.
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    interruption = _Interruption()
    show_ignored = sys.unraisablehook

    def show_others(ignored: "sys.UnraisableHookArgs") -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            show_ignored(ignored)

    signal.signal(signal.SIGINT, interruption.handle)
    sys.unraisablehook = show_others
    try:
        yield
    except Exception as error:
        if interruption.is_received:
            raise KeyboardInterrupt from error
        raise
    finally:
        interruption.end()
        sys.unraisablehook = show_ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Interruption:
    """Handles SIGINT.

    Attributes:
        is_received: Bool, whether the signal was received.
    """

    def __init__(self) -> None:
        self.is_received = False
        self._is_repeated = False
        self._timer: threading.Timer | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raises a `KeyboardInterrupt`, unless the block is already cleaning up after one."""
        self.is_received = True
        is_repeated, self._is_repeated = self._is_repeated, False
        self.end()
        self._timer = threading.Timer(_SECONDS, self._repeat)
        self._timer.daemon = True
        self._timer.start()
        if not (is_repeated and _is_handled()):
            raise KeyboardInterrupt

    def end(self) -> None:
        """Ends the repetition."""
        if self._timer is not None:
            self._timer.cancel()

    def _repeat(self) -> None:
        self._is_repeated = True
        _thread.interrupt_main()


def _is_handled() -> bool:
    """Returns whether code is running that cleans up after a `KeyboardInterrupt`."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
