import contextlib
import threading
from collections.abc import Iterator

# TensorFlow's setting holds for all threads.
_LOCK = threading.RLock()


@contextlib.contextmanager
def without_tensor_float_32() -> Iterator[None]:
    """Makes TensorFlow multiply in float32 inside the block, even on a GPU.

    By default, TensorFlow rounds the factors of a product to 10 bits (TensorFloat-32) on GPUs that
    support this format, while an exported file is compared in float32. The setting affects all
    products of the process during an export. A lock lets only one thread at a time enter the block.
    """
    import tensorflow as tf

    with _LOCK:
        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(False)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(before)
