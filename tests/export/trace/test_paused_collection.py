"""Python's collector rests inside of the block, and is what it was before behind it."""

import gc

import pytest

from keras_attn.export.trace.paused_collection import paused_collection


@pytest.mark.parametrize("was_enabled", [True, False])
def test_leaves_the_collector_as_it_found_it(was_enabled):
    (gc.enable if was_enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), paused_collection():
            assert not gc.isenabled()
            with paused_collection():
                pass
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()
