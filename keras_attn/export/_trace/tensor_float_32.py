import contextlib
import threading
from collections.abc import Iterator

# TensorFlow's setting holds for all threads.
_LOCK = threading.RLock()


@contextlib.contextmanager
def without_tensor_float_32() -> Iterator[None]:
    """Makes TensorFlow multiply in float32 inside the block, even on a GPU.

    On GPUs that support TensorFloat-32, TensorFlow by default rounds the factors of a product to 10
    bits. The comparison of an exported file with Keras needs products in float32. The setting
    affects all threads of the process. A lock lets only one thread at a time enter the block.
    """
    import tensorflow as tf

    with _LOCK:
        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(False)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(before)
