"""Deadlines and cancellation: what ends a call of a `Translator` before it is done."""

import contextlib
import queue
import threading
import time
import weakref

from keras_attn_runtime.errors import Cancelled, DeadlineExceeded

_WAKE = object()
_LONGEST_WAIT = 3600.0
"""Seconds of one wait, in a loop: some systems refuse very long ones."""

_live_calls = weakref.WeakSet()
_lock = threading.RLock()  # of this set


class CancelToken:
    """Cancels calls of a `Translator` from another thread, or from a signal handler.

    A token can be given to several calls. It stays cancelled: later calls with it raise at once.

    Example:

        token = CancelToken()
        threading.Timer(2.0, token.cancel).start()
        translator.translate(texts, cancel_token=token)    # raises Cancelled after 2 seconds
    """

    def __init__(self):
        self._is_cancelled = False
        self._calls = weakref.WeakSet()
        self._lock = threading.RLock()  # reentrant, for signal handlers

    @property
    def is_cancelled(self):
        """bool, whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self):
        """Ends all calls that were given this token; returns without waiting for them."""
        with self._lock:
            self._is_cancelled = True
            calls = list(self._calls)
        for call in calls:
            call.stop()

    def _add(self, call):
        with self._lock:
            self._calls.add(call)


class Call:
    """The state of one call: its deadline, its token, and its runs of ONNX Runtime.

    The thread of the call waits in `receive` for messages that other threads `send`. `stop` ends
    the wait and all runs, which ONNX Runtime ends between two operators.

    Args:
        timeout: float, seconds from now. Default: no deadline.
        cancel_token: `CancelToken`. Default: none.

    Attributes:
        is_limited: bool, whether the call has a deadline or a token.
        is_stopped: bool, whether `stop` was called.
    """

    def __init__(self, timeout=None, cancel_token=None):
        self.is_limited = timeout is not None or cancel_token is not None
        self.is_stopped = False
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._token = cancel_token
        self._messages = queue.SimpleQueue()
        self._runs = set()
        self._lock = threading.RLock()  # reentrant, for signal handlers
        with _lock:
            _live_calls.add(self)
        if cancel_token is not None:
            cancel_token._add(self)

    def check(self):
        """Stops the call and raises if it was cancelled or its time is over."""
        error = self.error()
        if error is not None:
            self.stop()
            raise error

    def error(self, index=0):
        """The `Cancelled` or `DeadlineExceeded` of this call, or `None` while it may go on.

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

    def send(self, message):
        """Gives a message to the thread that waits in `receive`."""
        self._messages.put(message)

    def receive(self):
        """Waits for the next message; raises `Cancelled` or `DeadlineExceeded` if none comes."""
        while True:
            try:
                message = self._messages.get_nowait()
            except queue.Empty:
                self.check()
                wait = None
                if self._deadline is not None:
                    wait = min(max(self._deadline - time.monotonic(), 0.0), _LONGEST_WAIT)
                try:
                    message = self._messages.get(timeout=wait)
                except queue.Empty:
                    continue
            if message is not _WAKE:
                return message

    def received(self):
        """Yields the messages that are there already."""
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._messages.get_nowait()
                if message is not _WAKE:
                    yield message

    def stop(self):
        """Ends the runs of this call and wakes the thread that waits in `receive`."""
        with self._lock:
            self.is_stopped = True
            for run_options in self._runs:
                run_options.terminate = True
        self._messages.put(_WAKE)

    @contextlib.contextmanager
    def run_options(self):
        """Yields the `onnxruntime.RunOptions` of one run, which `stop` ends.

        A run that was ended raises an exception of ONNX Runtime without a type of its own:
        `is_stopped` tells why it failed.
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


def stop_all_calls():
    """Stops the calls of all threads."""
    with _lock:
        calls = list(_live_calls)
    for call in calls:
        call.stop()
