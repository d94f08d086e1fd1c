import itertools
import queue
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

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
    def borrow(self) -> Generator[T, None, None]:
        """Yields a session that no other thread uses.

        If all sessions are in use, it yields any of them, or waits if the pool is exclusive.
        """
        try:
            session = self._free.get(block=self._is_exclusive)
        except queue.Empty:
            yield self.next()
            return
        try:
            yield session
        finally:
            self._free.put(session)

    def next(self) -> T:
        """Returns the sessions in turn, even if they are in use."""
        return next(self._turns)
