"""Reading an iterable that may block, in a thread that a deadline does not wait for."""

import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from keras_attn_runtime.array_types import is_in_memory
from keras_attn_runtime.cancellation import Call

T = TypeVar("T")


def read(items: Iterable[T], call: Call) -> Iterable[T]:
    """Returns an iterable of the same items that ends when the call is stopped.

    Without a deadline and a token it is `items` itself. A list, a tuple or an array cannot block.
    Any other iterable is read by another thread, item by item and not ahead; when the call is
    stopped inside of its `next`, that thread stays until `next` returns, and drops the item.

    Args:
        items: iterable.
        call: `Call`.

    Raises:
        Cancelled, DeadlineExceeded: while it is read.
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
    """Gives each requested future the next item, or the exception in its place."""
    iterator: Iterator[T] | None = None
    while (request := requests.get()) is not None:
        try:
            if iterator is None:
                iterator = iter(items)
            request.set_result(next(iterator))
        except BaseException as error:  # also KeyboardInterrupt, for the thread of the call
            request.set_exception(error)
            return
        finally:
            call.notify()
