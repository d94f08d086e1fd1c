import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


@contextlib.contextmanager
def run_in_background(items: Any) -> Iterator[Any]:
    """Context manager that consumes an iterable in a thread while its block runs.

    If the block raises an error, the rest of the iterable is not consumed.

    Args:
        items: Iterable.

    Yields:
        Function that waits for the thread and returns the list of all items, or raises the error of
        the iterable.
    """
    stopped = threading.Event()

    def collect():
        collected = []
        for item in items:
            collected.append(item)
            if stopped.is_set():
                break
        return collected

    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(collect)
        try:
            yield future.result
        finally:
            stopped.set()
