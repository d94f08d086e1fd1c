import keras
import numpy as np
import pytest

from keras_attn._decoding_state import kv_cache
from keras_attn._masks import MASKED_SCORE
from tests.contracts import assert_identical, numpy

GENERATOR = np.random.default_rng(0)
KEYS = GENERATOR.normal(size=(3, 2, 5, 4)).astype("float32")
VALUES = GENERATOR.normal(size=(3, 2, 5, 6)).astype("float32")


def new_cache(growing, dtype="float32", capacity=7):
    return kv_cache.new_cache(3, 2, 4, 6, dtype, capacity, growing)


@pytest.mark.parametrize(("growing", "slots"), [(True, 0), (False, 7)])
def test_a_new_cache_has_no_slots_or_all_of_them(growing, slots):
    cache = numpy(new_cache(growing, "float16"))
    assert cache["keys"].shape == (3, 2, slots, 4)
    assert cache["values"].shape == (3, 2, slots, 6)
    assert cache["keys"].dtype == cache["values"].dtype == "float16"
    assert not cache["keys"].any() and not cache["values"].any()


def test_by_default_the_cache_grows_where_the_backend_can():
    grows = keras.backend.backend() == "tensorflow"
    assert numpy(new_cache(None)["keys"]).shape[2] == (0 if grows else 7)


def test_a_cache_of_no_capacity_still_has_a_slot_for_the_loop_to_write_to():
    assert numpy(new_cache(False, capacity=0)["keys"]).shape[2] == 1


def test_an_archive_comes_before_the_cache_that_goes_on():
    whole = {"keys": KEYS, "values": VALUES}
    shared = {"archives": [new_cache(True)], "caches": [new_cache(True)], "position": 5}
    for now in (slice(0, 2), slice(2, 5)):
        keys, values = KEYS[:, :, now], VALUES[:, :, now]
        shared["caches"] = [kv_cache.extend(shared["caches"][0], keys, values, None, True)]
        (archive,), (cache,) = shared["archives"], shared["caches"]
        assert int(kv_cache.num_slots(cache, archive=archive)) == now.stop
        assert_identical(numpy(kv_cache.join(archive, cache))["keys"], KEYS[:, :, : now.stop])
        shared = kv_cache.archive(shared)
    assert_identical(numpy(shared["archives"][0]), whole)
    assert numpy(shared["caches"][0]["values"]).shape == (3, 2, 0, 6) and shared["position"] == 5
    without = {"caches": [whole]}
    assert kv_cache.archive(without) is without


def test_new_slots_are_empty_and_masked():
    shared = {"caches": [{"keys": KEYS, "values": VALUES}], "own": np.zeros((3, 4, 4), "float32")}
    state = {"ancestor_bias": np.zeros((12, 1, 5), "float32"), "shared": shared}
    state = numpy(kv_cache.widen(state, 2))
    (cache,) = state["shared"]["caches"]
    for name, old in shared["caches"][0].items():
        assert_identical(cache[name][:, :, :5], old)
        assert cache[name].shape[2] == 5 + 2 * 4 and not cache[name][:, :, 5:].any()
    assert state["ancestor_bias"].shape == (12, 1, 13)
    assert not state["ancestor_bias"][:, :, :5].any()
    assert (state["ancestor_bias"][:, :, 5:] == MASKED_SCORE).all()


@pytest.mark.parametrize("parts", [(1, 1, 1, 1, 1), (2, 3), (5,)])
@pytest.mark.parametrize("growing", [True, False])
def test_positions_come_behind_those_before(growing, parts):
    cache, slot = new_cache(growing), 0
    for new in parts:
        assert int(kv_cache.num_slots(cache, new, growing)) == (slot + new if growing else 7)
        now = slice(slot, slot + new)
        before = numpy(cache)
        extended = kv_cache.extend(
            cache, KEYS[:, :, now], VALUES[:, :, now], np.int32(slot), growing
        )
        assert_identical(numpy(cache), before)  # the old cache stays what it was
        cache, slot = extended, slot + new
        assert int(kv_cache.num_slots(cache)) == (slot if growing else 7)
        found = numpy(cache)
        assert_identical(found["keys"][:, :, :slot], KEYS[:, :, :slot])
        assert_identical(found["values"][:, :, :slot], VALUES[:, :, :slot])
        assert not found["keys"][:, :, slot:].any() and not found["values"][:, :, slot:].any()
