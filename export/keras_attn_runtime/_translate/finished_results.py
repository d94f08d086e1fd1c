"""Results of a call that may end before all sentences are finished."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from keras_attn_runtime._errors import Cancelled, DeadlineExceeded
from keras_attn_runtime._generation_result import Unfinished
from keras_attn_runtime._inputs.source import Source

T = TypeVar("T")


def collect_results(
    sources: Iterable[Source], search: Callable[[list[Source]], Iterable[T | Unfinished]]
) -> list[T]:
    """Returns all results. If the call ends early, the error contains the finished results."""
    read: list[Source] = []
    results: list[T | Unfinished] = []
    try:
        for source in sources:
            read.append(source)
        for result in search(read):
            results.append(result)
    except (Cancelled, DeadlineExceeded) as error:
        finished = [None if isinstance(result, Unfinished) else result for result in results]
        error.translations = finished + [None] * (len(read) - len(finished))
        raise
    return [result for result in results if not isinstance(result, Unfinished)]


def yield_finished(results: Iterable[T | Unfinished]) -> Iterator[T]:
    """Yields the results before the first `Unfinished`.

    Later results are consumed but not yielded: the iterable raises the call's error at its end.
    """
    is_finished = True
    for result in results:
        if isinstance(result, Unfinished):
            is_finished = False
        elif is_finished:
            yield result
