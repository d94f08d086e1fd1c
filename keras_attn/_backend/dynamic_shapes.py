import keras

from keras_attn._backend.private_names import is_compiled_by_xla


def dynamic_shapes() -> bool:
    """Returns whether shapes may depend on the values of tensors: on TensorFlow without XLA.

    If so, irrelevant rows of a batch can be removed instead of multiplied by 0.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    return not is_compiled_by_xla()


def is_symbol(size: object) -> bool:
    """Returns whether a size is a symbolic dimension in the shape inference of JAX."""
    return not isinstance(size, int) and not keras.ops.is_tensor(size)
