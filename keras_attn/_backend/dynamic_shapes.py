import keras

from keras_attn._backend.private_names import is_compiled_by_xla


def dynamic_shapes() -> bool:
    """Whether shapes may depend on values, here and now: on TensorFlow, unless XLA compiles.

    There what does not count can be left out of a batch instead of being multiplied by 0.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    return not is_compiled_by_xla()


def is_symbol(size: object) -> bool:
    """Returns whether a size is a symbolic dimension of JAX's shape inference."""
    return not isinstance(size, int) and not keras.ops.is_tensor(size)
