"""Deadlines and cancellation of the calls of a `Translator`."""

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from keras_attn_runtime.errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    import onnxruntime

_LONGEST_WAIT = 3600.0
"""Seconds of one wait, in a loop: some systems refuse very long ones."""

_live_calls: "weakref.WeakSet[Call]" = weakref.WeakSet()
_lock = threading.RLock()  # of this set


class CancelToken:
    """Cancels calls of a `Translator` from another thread, or from a signal handler.

    A token can be given to several calls. It stays cancelled: later calls with it raise at once.

    Example:

        token = CancelToken()
        threading.Timer(2.0, token.cancel).start()
        translator.translate(texts, cancel_token=token)    # raises Cancelled after 2 seconds
    """

    def __init__(self) -> None:
        self._is_cancelled = False
        self._calls: weakref.WeakSet[Call] = weakref.WeakSet()
        self._lock = threading.RLock()  # reentrant, for signal handlers

    @property
    def is_cancelled(self) -> bool:
        """bool, whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Ends all calls with this token; returns without waiting for them."""
        with self._lock:
            self._is_cancelled = True
            calls = list(self._calls)
        for call in calls:
            call.stop()

    def add_call(self, call: "Call") -> None:
        """Adds a call that `cancel` ends; methods of a `Translator` do so."""
        with self._lock:
            self._calls.add(call)


class Call:
    """The state of one call: its deadline, its token, and its runs of ONNX Runtime.

    The thread of the call waits in `wait` until another thread has finished something and calls
    `notify`. `stop` ends all runs, which ONNX Runtime ends between two operators.

    Args:
        timeout: float, seconds from now. Default: no deadline.
        cancel_token: `CancelToken`. Default: none.

    Attributes:
        is_limited: bool, whether the call has a deadline or a token.
        is_stopped: bool, whether `stop` was called.
    """

    def __init__(
        self, timeout: float | None = None, cancel_token: CancelToken | None = None
    ) -> None:
        self.is_limited = timeout is not None or cancel_token is not None
        self.is_stopped = False
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._token = cancel_token
        self._notes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._runs: set[onnxruntime.RunOptions] = set()
        self._lock = threading.RLock()  # reentrant, for signal handlers
        with _lock:
            _live_calls.add(self)
        if cancel_token is not None:
            cancel_token.add_call(self)

    def check(self) -> None:
        """Stops the call and raises if it was cancelled or its time is over."""
        error = self.error()
        if error is not None:
            self.stop()
            raise error

    def error(self, index: int = 0) -> Cancelled | DeadlineExceeded | None:
        """Returns the error that ends this call, or `None` while it may go on.

        Args:
            index: int, position of the first sentence without a translation.
        """
        if self._token is not None and self._token.is_cancelled:
            return Cancelled(
                "The call was cancelled by its cancel_token. The first sentence without a "
                f"translation is {index} (counted from 0).",
                index,
            )
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return DeadlineExceeded(
                f"The call did not finish within timeout={self._timeout} seconds. The first "
                f"sentence without a translation is {index} (counted from 0). Raise the timeout, "
                "or translate fewer or shorter sentences.",
                index,
            )
        return None

    def notify(self) -> None:
        """Makes the thread in `wait` look again, because something is ready."""
        self._notes.put(None)

    def wait(self, is_ready: Callable[[], bool]) -> None:
        """Waits until something is ready; raises if the call is cancelled or its time over before.

        Args:
            is_ready: function without arguments. It is called again after each `notify`.

        Raises:
            Cancelled, DeadlineExceeded: nothing became ready before.
        """
        with contextlib.suppress(queue.Empty):
            while True:  # notes of what was ready before; else they would pile up
                self._notes.get_nowait()
        while not is_ready():
            self.check()
            seconds = None
            if self._deadline is not None:
                seconds = min(max(self._deadline - time.monotonic(), 0.0), _LONGEST_WAIT)
            with contextlib.suppress(queue.Empty):
                self._notes.get(timeout=seconds)

    def stop(self) -> None:
        """Ends the runs of this call and wakes the thread that waits in `wait`."""
        with self._lock:
            self.is_stopped = True
            for run_options in self._runs:
                run_options.terminate = True
        self.notify()

    @contextlib.contextmanager
    def run_options(self) -> "Generator[onnxruntime.RunOptions, None, None]":
        """Yields the `onnxruntime.RunOptions` of one run, which `stop` ends.

        ONNX Runtime has no exception type for a run that was ended; `is_stopped` is then true.
        """
        import onnxruntime  # may be missing, which `create_session` reports first

        run_options = onnxruntime.RunOptions()
        with self._lock:
            if self.is_stopped:
                raise RuntimeError("The call was stopped.")
            self._runs.add(run_options)
        try:
            yield run_options
        finally:
            with self._lock:
                self._runs.discard(run_options)


def stop_all_calls() -> None:
    """Stops the calls of all threads."""
    with _lock:
        calls = list(_live_calls)
    for call in calls:
        call.stop()
