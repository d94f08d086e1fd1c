"""Reading an iterable that may block, in a thread that a deadline does not wait for."""

import queue
import threading

import numpy as np


def read(items, call):
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
    if isinstance(items, (list, tuple, np.ndarray)):
        return _checked(items, call)
    return _read_in_thread(items, call)


def _checked(items, call):
    for item in items:
        call.check()
        yield item


def _read_in_thread(items, call):
    requests = queue.SimpleQueue()
    threading.Thread(
        target=_answer, args=(items, requests, call), name="keras-attn-reader", daemon=True
    ).start()
    try:
        while True:
            call.check()
            requests.put(True)
            item, error = call.receive()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        requests.put(False)


def _answer(items, requests, call):
    iterator = None
    while requests.get():
        try:
            if iterator is None:
                iterator = iter(items)
            answer = next(iterator), None
        except BaseException as error:  # also KeyboardInterrupt, for the thread of the call
            answer = None, error
        call.send(answer)
        if answer[1] is not None:
            return
