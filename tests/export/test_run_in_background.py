import threading

import pytest

from keras_attn.export._run_in_background import run_in_background


def test_the_items_are_made_beside_the_block():
    begun = threading.Event()

    def items():
        begun.set()
        yield threading.get_ident()
        yield 2

    with run_in_background(items()) as collected:
        assert begun.wait(10)
        thread, two = collected()
    assert thread != threading.get_ident() and two == 2


def test_what_the_items_raise_is_raised_where_they_are_asked_for():
    def items():
        yield 1
        raise ValueError("no second")

    with run_in_background(items()) as collected, pytest.raises(ValueError, match="no second"):
        collected()
    with run_in_background(items()):
        pass  # the result is not used


def test_an_error_of_the_block_ends_the_rest():
    begun, may_go_on, made = threading.Event(), threading.Event(), []

    def items():
        yield 1
        begun.set()
        assert may_go_on.wait(10)
        yield 2
        made.append(3)
        yield 3

    with pytest.raises(KeyError), run_in_background(items()):
        assert begun.wait(10)
        threading.Timer(0.2, may_go_on.set).start()  # after the end of the block
        raise KeyError("of the block")
    assert may_go_on.is_set() and not made
