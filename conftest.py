"""What all tests and doctests share."""

import os

import pytest

# TensorFlow and Matplotlib read these when they are imported, so they come first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def fixed_seed():
    """Each test starts from the same random state, whichever tests ran before it."""
    import keras

    keras.utils.set_random_seed(0)
