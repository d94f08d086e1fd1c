import threading

import pytest
import tensorflow as tf

from keras_attn.export._trace.tensor_float_32 import without_tensor_float_32

is_enabled = tf.config.experimental.tensor_float_32_execution_enabled


def test_tensor_float_32_is_off_inside_the_block_and_restored_after_an_error():
    before = is_enabled()
    with pytest.raises(KeyError), without_tensor_float_32():
        assert not is_enabled()
        raise KeyError
    assert is_enabled() == before


def test_tensor_float_32_blocks_of_two_threads_take_turns():
    before, inside, seen = is_enabled(), threading.Event(), []

    def second():
        inside.wait()
        with without_tensor_float_32():
            seen.append(is_enabled())

    thread = threading.Thread(target=second)
    thread.start()
    with without_tensor_float_32():
        inside.set()
        thread.join(0.2)
        assert not seen
    thread.join()
    assert seen == [False] and is_enabled() == before
