import gc

import keras
import pytest


def pytest_configure():
    """Saves the time of Python's collector, which walks all that TensorFlow holds, and of what
    Keras and TensorFlow wrap around each call to shorten tracebacks, a tenth of the time each."""
    gc.set_threshold(100_000, 20, 100)
    keras.config.disable_traceback_filtering()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.debugging.disable_traceback_filtering()


def pytest_ignore_collect(collection_path):
    """Of tests/, only test_*.py is imported: the modules and scripts beside them are for the tests.

    Otherwise `--doctest-modules`, which is meant for keras_attn, would import each of them.
    """
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_functions():
    """Under JAX, drops what a module compiled.

    Each compiled function holds several memory mappings; the whole suite would need more than the
    65,530 that Linux gives a process, and LLVM crashes when it gets no more.
    """
    yield
    if keras.backend.backend() == "jax":
        import jax

        jax.clear_caches()
