import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


@contextlib.contextmanager
def run_in_background(items: Any) -> Iterator[Any]:
    """Goes through an iterable in a thread of its own, while the block does something else.

    Where the block ends before the iterable does, because of an error, the rest is left out.

    Args:
        items: iterable.

    Yields:
        Function that waits for the end and returns the list of all items, or raises what the
        iterable has raised.
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
