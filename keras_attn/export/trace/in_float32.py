import contextlib

from keras_attn._layer.flatten_layers import flatten_layers


@contextlib.contextmanager
def in_float32(*layers):
    """Makes layers compute in float32 inside the block: what an ONNX file is compared with.

    A model that was trained in mixed precision has its weights in float32; what is lower precision
    in a file is a choice of the export. And TensorFlow, unless told otherwise, rounds the factors
    of a product to 10 bits (TensorFloat-32) on a GPU that can do so. A cast that is part of a
    functional model stays, such as that of the inputs of a nested one.

    Args:
        layers: Keras layers or models; all layers inside them are treated, however deep.
    """
    import tensorflow as tf

    rounds = tf.config.experimental.tensor_float_32_execution_enabled()
    mixed = [
        layer for layer in flatten_layers(layers) if layer.dtype_policy.name.startswith("mixed_")
    ]
    before = [layer.dtype_policy for layer in mixed]
    tf.config.experimental.enable_tensor_float_32_execution(False)
    for layer in mixed:
        layer.dtype_policy = "float32"
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(rounds)
        for layer, policy in zip(mixed, before, strict=True):
            layer.dtype_policy = policy
