import numpy as np
import pytest

from keras_attn import CacheView
from keras_attn._decoding_state import kv_cache
from tests.contracts import numpy


def cache_of(slots):
    return {name: np.zeros((2, 1, slots, 4), "float32") for name in ("keys", "values")}


def test_cache_view_positions_default_to_slots():
    query_positions, key_positions = CacheView(3).positions(cache_of(5), 2)
    assert numpy(query_positions).tolist() == [[3, 4]]
    assert numpy(key_positions).tolist() == [[0, 1, 2, 3, 4]]


def test_cache_view_counts_slots_of_the_archive():
    _, key_positions = CacheView(3, archive=cache_of(4)).positions(cache_of(2), 1)
    assert numpy(key_positions).tolist() == [[0, 1, 2, 3, 4, 5]]


def test_cache_view_mask_is_causal_and_hides_negative_positions():
    key_positions = np.array([[0, 1, 2, 3], [-1, 0, 1, 2]], "int32")
    view = CacheView(2, start_index=np.array([2, 1], "int32"), key_positions=key_positions)
    mask = numpy(view.mask(*view.positions(cache_of(4), 2)))
    assert mask[0].tolist() == [[True, True, True, False], [True] * 4]
    assert mask[1].tolist() == [[False, True, True, False], [False, True, True, True]]


@pytest.mark.parametrize("growing", [True, False])
def test_cache_view_needs_no_mask_for_a_single_position_that_a_growing_cache_ends_with(growing):
    view = CacheView(4, growing=growing)
    mask = view.mask(*view.positions(cache_of(5), 1))
    assert (mask is None) == growing
    assert growing or numpy(mask).all()


def test_cache_view_leaves_beams_to_the_ancestor_bias():
    own = kv_cache.own_slots(2, 3)["own"]
    key_positions = np.zeros((1, 3), "int32")
    view = CacheView(0, key_positions=key_positions, ancestor_bias=own[:, None], num_beams=3)
    assert view.mask(*view.positions(cache_of(3), 1)) is None
