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
_DELAY = 0.01
"""Seconds after which an ignored `KeyboardInterrupt` is raised again."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Context manager that raises `KeyboardInterrupt` in place of any error that Ctrl-C caused.

    C++ code that calls Python replaces a `KeyboardInterrupt` by an error of its own, and an
    interrupted import can look like a missing module. Python ignores it in a finalizer or a
    callback of the garbage collector, so it is then raised again.
    """
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    def repeat(ignored: "sys.UnraisableHookArgs") -> None:
        if received and issubclass(ignored.exc_type, KeyboardInterrupt):
            timer = threading.Timer(_DELAY, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            show_ignored(ignored)

    # Background jobs of a shell ignore SIGINT, and only the main thread can set handlers.
    is_handled = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    show_ignored = sys.unraisablehook
    if is_handled:
        signal.signal(signal.SIGINT, handle)
        sys.unraisablehook = repeat
    try:
        yield
    except Exception as error:
        if received:
            raise KeyboardInterrupt from error
        raise
    finally:
        if is_handled:
            sys.unraisablehook = show_ignored
            signal.signal(signal.SIGINT, signal.default_int_handler)
