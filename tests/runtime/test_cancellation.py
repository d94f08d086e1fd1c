"""A call waits for other threads."""

import threading

import pytest
from keras_attn_runtime import Cancelled, CancelToken, DeadlineExceeded
from keras_attn_runtime._calls.cancellation import Call


def test_call_waits_until_ready():
    call, ready = Call(timeout=60), threading.Event()

    def finish():
        for _ in range(3):
            call.notify()  # unrelated notification
        ready.set()
        call.notify()

    call.notify()  # earlier notification
    thread = threading.Timer(0.01, finish)
    thread.start()
    call.wait(ready.is_set)
    thread.join()
    call.wait(ready.is_set)
    assert ready.is_set()


def test_call_returns_what_is_ready_after_its_end():
    token = CancelToken()
    call = Call(cancel_token=token)
    token.cancel()
    call.wait(lambda: True)
    with pytest.raises(Cancelled):
        call.wait(lambda: False)
    assert call.is_stopped


def test_deadline_ends_a_wait():
    with pytest.raises(DeadlineExceeded):
        Call(timeout=0.01).wait(lambda: False)


def test_token_ends_the_wait_of_another_thread():
    token = CancelToken()
    call = Call(cancel_token=token)
    threading.Timer(0.01, token.cancel).start()
    with pytest.raises(Cancelled):
        call.wait(lambda: False)
