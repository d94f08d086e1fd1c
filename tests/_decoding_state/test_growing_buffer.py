import numpy as np

from keras_attn._decoding_state import growing_buffer
from tests.contracts import assert_identical, numpy


def test_what_is_appended_is_kept_in_order():
    entries = np.arange(24).reshape(3, 2, 4).astype("int32")
    kept = growing_buffer.new_buffer((2, 4), (), "int32", 5)
    for step, entry in enumerate(entries):
        kept = growing_buffer.append(kept, entry, np.int32(step))
    kept = numpy(kept)
    assert kept.dtype == "int32"
    assert_identical(kept[:, :, :3], entries.transpose(1, 2, 0))
    assert kept.shape[2] == (3 if growing_buffer.supports_growth() else 5)
    assert not kept[:, :, 3:].any()


def test_entries_can_be_tensors():
    entry = np.arange(6, dtype="float32").reshape(1, 2, 3)
    kept = growing_buffer.append(growing_buffer.new_buffer((1, 2), (3,), "float32", 2), entry, 0)
    assert_identical(numpy(kept)[:, :, 0], entry)
