"""Deadlines and cancellation of `Translator` calls."""

import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from keras_attn_runtime._errors import Cancelled, DeadlineExceeded

if TYPE_CHECKING:
    import onnxruntime

_LONGEST_WAIT = 3600.0
"""Maximum duration of a single wait in seconds, because some systems reject long timeouts."""

_live_calls: "weakref.WeakSet[Call]" = weakref.WeakSet()
_lock = threading.RLock()  # guards `_live_calls`


class CancelToken:
    """Cancels `Translator` calls from another thread, or from a signal handler.

    You can pass a token to several calls. A cancelled token cannot be reset: later calls with it
    raise `Cancelled` at once.

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
        """Stops all calls with this token, without waiting until they have ended."""
        with self._lock:
            self._is_cancelled = True
            calls = list(self._calls)
        for call in calls:
            call.stop()

    def add_call(self, call: "Call") -> None:
        """Registers a call that `cancel` stops. Methods of `Translator` register their calls."""
        with self._lock:
            self._calls.add(call)


class Call:
    """State of one call: its deadline, token, and runs.

    The calling thread blocks in `wait` until a worker thread calls `notify`. `stop` terminates all
    ONNX Runtime runs, which end between two operators. LiteRT cannot terminate a run: its worker
    thread finishes the current run, but starts no further one.

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
        """Stops the call and raises an error if it was cancelled or its deadline has passed."""
        error = self.error()
        if error is not None:
            self.stop()
            raise error

    def error(self, index: int = 0) -> Cancelled | DeadlineExceeded | None:
        """Returns the error if the call was cancelled or is past its deadline, else `None`.

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
        """Makes the thread in `wait` call `is_ready` again."""
        self._notes.put(None)

    def wait(self, is_ready: Callable[[], bool]) -> None:
        """Blocks until `is_ready()` is true. Raises an error if the call is cancelled or times out.

        Args:
            is_ready: function `()` that returns a bool. It is called at the start and after each
                `notify`.

        Raises:
            Cancelled, DeadlineExceeded: if the call ends before `is_ready()` is true.
        """
        with contextlib.suppress(queue.Empty):
            while True:  # removes old notifications, which would accumulate
                self._notes.get_nowait()
        while not is_ready():
            self.check()
            seconds = None
            if self._deadline is not None:
                seconds = min(max(self._deadline - time.monotonic(), 0.0), _LONGEST_WAIT)
            with contextlib.suppress(queue.Empty):
                self._notes.get(timeout=seconds)

    def stop(self) -> None:
        """Terminates this call's runs, if the engine can, and wakes the thread in `wait`."""
        with self._lock:
            self.is_stopped = True
            for run_options in self._runs:
                run_options.terminate = True
        self.notify()

    @contextlib.contextmanager
    def run_options(self) -> "Generator[onnxruntime.RunOptions, None, None]":
        """Yields `onnxruntime.RunOptions` for one run, which `stop` can terminate.

        ONNX Runtime defines no exception type for terminated runs. If a run fails and `is_stopped`
        is true, it was terminated.
        """
        import onnxruntime  # if it is not installed, `create_session` has raised an error before

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
    """Stops the calls in all threads."""
    with _lock:
        calls = list(_live_calls)
    for call in calls:
        call.stop()
