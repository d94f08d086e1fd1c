"""The garbage collector is disabled inside the block and restored after it."""

import gc

import pytest

from keras_attn.export._trace.pause_garbage_collection import pause_garbage_collection


@pytest.mark.parametrize("was_enabled", [True, False])
def test_leaves_the_collector_as_it_found_it(was_enabled):
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), pause_garbage_collection():
            assert not gc.isenabled()
            with pause_garbage_collection():
                pass
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
