import ctypes
import gc
import sys
import tempfile

import keras
import pytest


def pytest_configure(config):
    """Speeds up the tests: fewer garbage collections, no filtered tracebacks, a cache for JAX.

    Python's collector traverses all objects of TensorFlow. Keras and TensorFlow wrap each call to
    shorten tracebacks. Each takes about a tenth of the time. JAX compiles equal functions of
    different tests once, which saves a fifth. A worker has its own cache, because JAX reads
    entries that another process is writing.
    """
    gc.set_threshold(100_000, 20, 100)
    keras.config.disable_traceback_filtering()
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.debugging.disable_traceback_filtering()
    elif keras.backend.backend() == "jax":
        import jax

        cache = tempfile.TemporaryDirectory(prefix="jax-cache-")
        config.add_cleanup(cache.cleanup)
        jax.config.update("jax_compilation_cache_dir", cache.name)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_finish():
    """Speeds up garbage collection, which would traverse the imported modules for 0.7 s."""
    gc.freeze()


def pytest_ignore_collect(collection_path):
    """Collects only test_*.py in tests/: the other modules and scripts are helpers.

    Otherwise `--doctest-modules`, which is meant for keras_attn, would import all of them.
    """
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None


@pytest.fixture(scope="module", autouse=True)
def release_memory():
    """Releases the graphs, models and compiled functions of a module, so that workers stay small.

    On JAX, each compiled function needs several memory mappings. The whole suite would exceed the
    65,530 mappings that Linux allows a process, and LLVM would crash.
    """
    yield
    if keras.backend.backend() == "jax":
        import jax

        jax.clear_caches()
    keras.backend.clear_session()  # collects garbage, too
    if sys.platform == "linux":  # return free memory to the system
        getattr(ctypes.CDLL(None), "malloc_trim", bool)(0)
