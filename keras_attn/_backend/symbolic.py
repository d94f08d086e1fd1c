"""Symbolic tensors of TensorFlow graphs."""

import keras


def is_symbolic(tensor: object) -> bool:
    """Returns whether a tensor belongs to a TensorFlow graph that is being traced."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.is_symbolic_tensor(tensor)
