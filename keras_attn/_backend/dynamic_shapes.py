import keras

from keras_attn._backend.private_names import is_compiled_by_xla


def dynamic_shapes() -> bool:
    """Returns whether shapes may depend on values: on TensorFlow, unless XLA compiles.

    If so, rows that do not count can be removed from a batch instead of being multiplied by 0.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    return not is_compiled_by_xla()


def is_symbol(size: object) -> bool:
    """Returns whether a size is a symbolic dimension of JAX's shape inference."""
    return not isinstance(size, int) and not keras.ops.is_tensor(size)
