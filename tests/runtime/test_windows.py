"""Windows of the input and batches of similar length."""

import doctest

import pytest
from keras_attn_runtime._translate import windows as module
from keras_attn_runtime._translate.windows import batches_by_length, windows


def test_examples():
    assert doctest.testmod(module).attempted == 2
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("count, sizes", [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3])])
def test_windows_hold_everything_in_order(count, sizes):
    cut = list(windows(range(count), 3))
    assert [len(window) for window in cut] == sizes
    assert sum(cut, []) == list(range(count))


def test_batches_hold_every_position_once():
    lengths = [5, 1, 5, 9, 2, 2, 7]
    batches = list(batches_by_length(lengths, 3))
    assert sorted(sum(batches, [])) == list(range(7))
    assert [[lengths[row] for row in batch] for batch in batches] == [[9, 7, 5], [5, 2, 2], [1]]
    assert list(batches_by_length([], 3)) == []


def test_interrupt_is_not_held_back():
    def interrupted():
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(windows(interrupted(), 5))
