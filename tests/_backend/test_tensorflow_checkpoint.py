import sys

import numpy as np
import pytest

from keras_attn._backend.tensorflow_checkpoint import TensorFlowCheckpoint


def test_tensorflow_checkpoint_has_names_shapes_and_values(tmp_path):
    tf = pytest.importorskip("tensorflow")
    value = np.arange(6, dtype="float32").reshape(2, 3)
    prefix = tf.train.Checkpoint(table=tf.Variable(value)).write(str(tmp_path / "ckpt"))
    checkpoint = TensorFlowCheckpoint(prefix)
    name = "table/.ATTRIBUTES/VARIABLE_VALUE"
    assert checkpoint.shapes[name] == (2, 3)
    np.testing.assert_array_equal(checkpoint.read(name), value)


def test_tensorflow_checkpoint_names_missing_files_and_packages(tmp_path, monkeypatch):
    pytest.importorskip("tensorflow")
    with pytest.raises(OSError, match="Expected a TensorFlow checkpoint at .*/ckpt'"):
        TensorFlowCheckpoint(tmp_path / "ckpt")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[tensorflow\]'"):
        TensorFlowCheckpoint(tmp_path / "ckpt")
