"""Threads that run an engine, so that a calling thread can stop waiting for a run."""

import atexit
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeAlias

from keras_attn_runtime._calls.cancellation import stop_all_calls

LONGEST_EXIT = 5.0
"""Maximum number of seconds that the process waits at exit for its runs.

ONNX Runtime ends terminated runs within milliseconds. LiteRT cannot terminate a run early.
"""

Job: TypeAlias = Callable[[], None]

_live_queues: "weakref.WeakSet[_Queue]" = weakref.WeakSet()


class WorkerPool:
    """A pool of daemon threads.

    ONNX Runtime enables flush-to-zero for denormals in the thread that creates the first session,
    and a new thread inherits this mode from the thread that starts it. To use it in all threads,
    create the pool after the sessions, in the same thread. The constructor starts the first thread.
    A thread that begins a job starts the next one if no other thread is free.

    Args:
        limit: int, maximum number of threads. Default: no limit, all jobs run at the same time.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._queue = _Queue(limit)
        # The threads refer only to the queue, so that the pool can be garbage-collected.
        weakref.finalize(self, self._queue.close).atexit = False

    def submit(self, job: Job) -> None:
        """Runs a function `()` in one of the threads. It must not raise."""
        self._queue.jobs.put(job)


class _Queue:
    """A pool's jobs and threads."""

    def __init__(self, limit: int | None) -> None:
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self.num_busy = 0
        self.process = os.getpid()
        self._num_threads = 0
        self._limit = limit
        self._lock = threading.Lock()
        _live_queues.add(self)
        with self._lock:
            self._start_thread()

    def close(self) -> None:
        """Ends the threads after the submitted jobs."""
        self.jobs.put(None)

    def _start_thread(self) -> None:
        self._num_threads += 1
        threading.Thread(target=self._work, name="keras-attn-worker", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self.jobs.get()
            if job is None:
                self.jobs.put(None)  # for the other threads
                return
            with self._lock:
                self.num_busy += 1
                is_last = self.num_busy == self._num_threads
                if is_last and (self._limit is None or self._num_threads < self._limit):
                    self._start_thread()
            job()
            del job  # free the batch that it refers to: the next job may come much later
            with self._lock:
                self.num_busy -= 1


@atexit.register
def _end_runs() -> None:
    """Terminates all runs at exit, before Python destroys the objects in use."""
    if _is_any_busy():
        stop_all_calls()
    end = time.monotonic() + LONGEST_EXIT
    while _is_any_busy() and time.monotonic() < end:
        time.sleep(0.005)


def _is_any_busy() -> bool:
    # A forked process contains none of the threads.
    queues = [jobs for jobs in list(_live_queues) if jobs.process == os.getpid()]
    return any(jobs.num_busy > 0 for jobs in queues)
