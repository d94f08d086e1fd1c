import itertools
import queue
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from keras_attn_runtime._calls.cancellation import Call

LONGEST_WAIT = 0.1
"""Seconds after which a thread waiting for a session checks whether its call has ended."""

T = TypeVar("T")


class SessionPool(Generic[T]):
    """Distributes sessions among threads.

    Args:
        sessions: list with at least one session or tuple of sessions.
        is_exclusive: bool, whether only one thread at a time may use a session. Default: False.
    """

    def __init__(self, sessions: Sequence[T], is_exclusive: bool = False) -> None:
        self._is_exclusive = is_exclusive
        self._turns = itertools.cycle(sessions)
        self._free: queue.SimpleQueue[T] = queue.SimpleQueue()
        for session in sessions:
            self._free.put(session)

    @contextmanager
    def borrow(self, call: Call | None = None) -> Generator[T, None, None]:
        """Yields a session that no other thread uses.

        If all sessions are in use, an exclusive pool waits for a free one. Other pools yield a
        session that is in use.

        Args:
            call: `Call` whose end also ends the waiting. Default: none.

        Raises:
            RuntimeError: if `call` is stopped while the pool waits for a free session.
        """
        session = self._wait(call) if self._is_exclusive else self._take()
        if session is None:
            yield self.next()
            return
        try:
            yield session
        finally:
            self._free.put(session)

    def _take(self) -> T | None:
        with suppress(queue.Empty):
            return self._free.get_nowait()
        return None

    def _wait(self, call: Call | None) -> T:
        while call is None or not call.is_stopped:
            with suppress(queue.Empty):
                return self._free.get(timeout=LONGEST_WAIT)
        raise RuntimeError("The call was stopped.")

    def next(self) -> T:
        """Returns the next session in a fixed rotation, even if the session is in use."""
        return next(self._turns)
