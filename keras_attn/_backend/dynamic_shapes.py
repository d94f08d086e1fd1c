import keras


def dynamic_shapes():
    """Returns whether shapes may depend on values: on TensorFlow, unless XLA compiles.

    If so, rows that do not count can be removed from a batch instead of being multiplied by 0.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    try:  # As in TensorFlow's own loops; there is no public function.
        from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
    except ImportError:
        return False
    return not GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def is_symbol(size):
    """Returns whether a size is a symbolic dimension of JAX's shape inference."""
    return not isinstance(size, int) and not keras.ops.is_tensor(size)
