import keras


def dynamic_shapes() -> bool:
    """Whether shapes may depend on values, here and now: on TensorFlow, unless XLA compiles.

    There what does not count can be left out of a batch instead of being multiplied by 0.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    try:  # TensorFlow's own loops ask in this way; no public function tells.
        from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
    except ImportError:
        return False
    return not GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def is_symbol(size: object) -> bool:
    """Returns whether a size is a symbolic dimension of JAX's shape inference."""
    return not isinstance(size, int) and not keras.ops.is_tensor(size)
