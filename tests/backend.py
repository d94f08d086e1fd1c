"""Which backend the tests run on."""

import keras
import pytest


def requires_tensorflow(reason):
    """Marks a test that no other backend can run; `reason` says why."""
    return pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason=reason)
