"""Divides the input into windows, and each window into batches of similar lengths."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def windows(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cuts an iterable into lists of up to `size` consecutive items.

    If the iterable raises an error, the items before it are yielded first, so that no line before a
    bad line is lost.

    Args:
        items: iterable, read no further than the end of the current window.
        size: int of at least 1.

    Returns:
        Iterator over non-empty lists.

    Example:

    >>> list(windows("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while True:
        window: list[T] = []
        error: Exception | None = None
        try:
            for item in islice(iterator, size):
                window.append(item)
        except Exception as caught:
            error = caught
        if window:
            yield window
        if error is not None:
            raise error
        if len(window) < size:
            return


def batches_by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yields positions grouped into batches of similar lengths, so that little padding is computed.

    The batch with the longest items comes first, so that all other batches can reuse its memory.

    Args:
        lengths: list of ints.
        batch_size: int of at least 1.

    Returns:
        Iterator over lists of positions in `lengths`; each position occurs once.

    Example:

    >>> list(batches_by_length([3, 9, 4, 8], batch_size=2))
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]
