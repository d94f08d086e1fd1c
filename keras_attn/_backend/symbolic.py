"""Tensors of a graph that TensorFlow traces."""

import keras


def is_symbolic(tensor: object) -> bool:
    """Returns whether the tensor belongs to a graph that TensorFlow traces."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.is_symbolic_tensor(tensor)
