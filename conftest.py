"""Settings and fixtures of all tests and doctests."""

import importlib.util
import os
from unittest import mock

import pytest

# TensorFlow and Matplotlib read these when they are imported, so they come first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MPLBACKEND", "Agg")
# ONNX Runtime would write into the home of the developer, which tests import without the runtime.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


@pytest.fixture(scope="session", autouse=True)
def fixed_seed_of_tensorflow():
    """Sets the seed of TensorFlow once.

    Setting it clears TensorFlow's kernel cache, and refilling the cache took a quarter of the time
    of the tests. Layers use the seeds of Keras and NumPy.
    """
    if HAS_TENSORFLOW:
        import tensorflow as tf

        tf.random.set_seed(0)


@pytest.fixture(autouse=True)
def fixed_seed(fixed_seed_of_tensorflow):
    """Starts each test from the same random state, independent of previous tests."""
    import keras

    if not HAS_TENSORFLOW:
        keras.utils.set_random_seed(0)
        return
    with mock.patch("tensorflow.random.set_seed"):
        keras.utils.set_random_seed(0)
