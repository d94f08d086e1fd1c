"""Assignment of sessions to threads."""

import contextlib
import threading

import pytest
from keras_attn_runtime._calls.cancellation import Call
from keras_attn_runtime._engines.session_pool import SessionPool


def test_session_pool_prefers_free_sessions():
    pool = SessionPool(["first", "second"])
    with pool.borrow() as first:
        with pool.borrow() as second:
            assert {first, second} == {"first", "second"}
            with pool.borrow() as third:  # share a session if there are more threads than sessions
                assert third in (first, second)
        for _ in range(3):
            with pool.borrow() as free:
                assert free == second


def test_session_pool_takes_a_session_back_after_an_error():
    pool = SessionPool(["first", "second"])
    for _ in range(2):
        with contextlib.suppress(RuntimeError), pool.borrow():
            raise RuntimeError
    with pool.borrow() as one, pool.borrow() as other:
        assert {one, other} == {"first", "second"}


def test_exclusive_session_pool_waits_for_a_free_session():
    pool, order = SessionPool(["only"], is_exclusive=True), []

    def use(number):
        with pool.borrow() as session:
            order.append((number, session))

    with pool.borrow():
        threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        threads[0].join(0.1)
        order.append("first")
    for thread in threads:
        thread.join(60)
    assert order[0] == "first" and sorted(order[1:]) == [(0, "only"), (1, "only")]


def test_exclusive_session_pool_stops_waiting_with_the_call():
    pool, call = SessionPool(["only"], is_exclusive=True), Call()
    with pool.borrow(call):
        threading.Timer(0.05, call.stop).start()
        with pytest.raises(RuntimeError, match="The call was stopped"), pool.borrow(call):
            pass
    with pool.borrow() as session:
        assert session == "only"
