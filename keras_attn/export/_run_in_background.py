import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


@contextlib.contextmanager
def run_in_background(items: Iterable[Item]) -> Iterator[Callable[[], list[Item]]]:
    """Consumes an iterable in a thread while the block of the `with` statement runs.

    At the end of the block, the thread stops after the current item.

    Args:
        items: Iterable.

    Yields:
        Function that waits for the thread and returns the list of all items. If the iterable raises
        an error, the function raises the same error.
    """
    stopped = threading.Event()

    def collect() -> list[Item]:
        collected: list[Item] = []
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
