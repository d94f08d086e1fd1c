import numpy as np

from keras_attn._decoding_state import history
from tests.contracts import assert_identical, numpy


def test_what_is_appended_is_kept_in_order():
    entries = np.arange(24).reshape(3, 2, 4).astype("int32")
    kept = history.new_history((2, 4), (), "int32", 5)
    for step, entry in enumerate(entries):
        kept = history.append(kept, entry, np.int32(step))
    kept = numpy(kept)
    assert kept.dtype == "int32"
    assert_identical(kept[:, :, :3], entries.transpose(1, 2, 0))
    assert kept.shape[2] == (3 if history.grows() else 5)
    assert not kept[:, :, 3:].any()


def test_entries_can_be_tensors():
    entry = np.arange(6, dtype="float32").reshape(1, 2, 3)
    kept = history.append(history.new_history((1, 2), (3,), "float32", 2), entry, 0)
    assert_identical(numpy(kept)[:, :, 0], entry)
