"""Assignment of sessions to threads."""

import contextlib

from keras_attn_runtime.session_pool import SessionPool


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
