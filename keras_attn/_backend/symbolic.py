"""Tensors of a graph that TensorFlow traces."""

import keras


def is_symbolic(tensor):
    """Whether TensorFlow traces a graph and the tensor belongs to it."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.is_symbolic_tensor(tensor)
