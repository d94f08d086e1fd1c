import itertools
import queue
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from keras_attn_runtime.cancellation import Call

LONGEST_WAIT = 0.1
"""Seconds after which a thread that waits for a session checks whether its call has ended."""

T = TypeVar("T")


class SessionPool(Generic[T]):
    """Distributes sessions among threads.

    Args:
        sessions: list of at least one session, or of at least one tuple of sessions.
        is_exclusive: bool, whether a session may be used by one thread at a time only. Default:
            False.
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

        If all sessions are in use, it yields any of them, or waits if the pool is exclusive.

        Args:
            call: `Call` whose end also ends the waiting. Default: none.

        Raises:
            RuntimeError: if `call` is stopped while it waits.
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
        """Returns the sessions in turn, even if they are in use."""
        return next(self._turns)
