"""Reads an iterable in a separate thread, so that a blocking `next` does not delay a deadline."""

import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from keras_attn_runtime._array_types import is_in_memory
from keras_attn_runtime._calls.cancellation import Call

T = TypeVar("T")


def read(items: Iterable[T], call: Call) -> Iterable[T]:
    """Returns an iterable over the same items, which raises an error when the call ends early.

    Without deadline and token, `items` is returned unchanged. A list, tuple or array cannot block,
    so the calling thread reads it. Any other iterable is read by a reader thread, one item at a
    time on request. If the call ends while `next` blocks, the reader thread remains until `next`
    returns, and the item is lost.

    Args:
        items: iterable.
        call: `Call`.

    Raises:
        Cancelled, DeadlineExceeded: by the returned iterable, if the call ends early.
    """
    if not call.is_limited:
        return items
    if is_in_memory(items):
        return _checked(items, call)
    return _read_in_thread(items, call)


def _checked(items: Iterable[T], call: Call) -> Iterator[T]:
    for item in items:
        call.check()
        yield item


def _read_in_thread(items: Iterable[T], call: Call) -> Iterator[T]:
    requests: queue.SimpleQueue[Future[T] | None] = queue.SimpleQueue()
    threading.Thread(
        target=_answer, args=(items, requests, call), name="keras-attn-reader", daemon=True
    ).start()
    try:
        while True:
            call.check()
            item: Future[T] = Future()
            requests.put(item)
            call.wait(item.done)
            if isinstance(item.exception(), StopIteration):
                return
            yield item.result()
    finally:
        requests.put(None)


def _answer(
    items: Iterable[T], requests: "queue.SimpleQueue[Future[T] | None]", call: Call
) -> None:
    """Sets each requested future's result to the next item, or its exception."""
    iterator: Iterator[T] | None = None
    while (request := requests.get()) is not None:
        try:
            if iterator is None:
                iterator = iter(items)
            request.set_result(next(iterator))
        except BaseException as error:  # the calling thread raises it, also KeyboardInterrupt
            request.set_exception(error)
            return
        finally:
            call.notify()
