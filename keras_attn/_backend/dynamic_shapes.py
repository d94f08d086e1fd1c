import keras

from keras_attn._backend.private_names import infers_shapes, is_compiled_by_xla


def dynamic_shapes() -> bool:
    """Returns whether shapes may depend on tensor values: on TensorFlow without XLA.

    If so, irrelevant batch rows can be removed instead of multiplied by 0.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    return not is_compiled_by_xla()


def is_symbol(size: object) -> bool:
    """Returns whether a size is a symbolic dimension in JAX's shape inference."""
    return not isinstance(size, int) and not keras.ops.is_tensor(size)


def has_placeholder_sizes() -> bool:
    """Returns whether sizes may be placeholders for unknown sizes.

    In the shape inference on PyTorch, Keras calls layers with the size 83 for all unknown axes,
    and then with the size 89.
    """
    return keras.backend.backend() == "torch" and infers_shapes()
