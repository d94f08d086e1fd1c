import keras
import numpy as np
import pytest

from keras_attn._drop_ins import layer_normalization
from keras_attn._drop_ins.layer_normalization import LayerNormalization
from tests.backend import requires_tensorflow
from tests.contracts import numpy

X = np.random.default_rng(0).normal(2, 3, (3, 4, 5)).astype("float32")


def both(**arguments):
    """Ours and Keras' layer, with the same weights."""
    layers = LayerNormalization(**arguments), keras.layers.LayerNormalization(**arguments)
    for layer in layers:
        layer.build(X.shape)
        generator = np.random.default_rng(1)
        layer.set_weights([generator.normal(size=w.shape) for w in layer.weights])
    return layers


ARGUMENTS = [
    {},
    {"epsilon": 1e-5},
    {"axis": 2},
    {"axis": 1},
    {"axis": (1, 2)},
    {"scale": False},
    {"center": False},
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_equals_keras(arguments, training, monkeypatch):
    if keras.backend.backend() == "torch" and arguments.get("axis") == 1:
        pytest.skip("Keras cannot normalize a single inner axis on PyTorch")
    used = []
    original = layer_normalization._normalize

    def spy(*args, **kwargs):
        used.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(layer_normalization, "_normalize", spy)
    ours, theirs = both(**arguments)
    np.testing.assert_allclose(numpy(ours(X, training=training)), numpy(theirs(X)), atol=1e-5)
    is_last_axis = arguments.get("axis", 2) == 2 and not {"scale", "center"} & set(arguments)
    assert bool(used) == (training and is_last_axis and keras.backend.backend() == "tensorflow")


@requires_tensorflow("the gradient is TensorFlow's")
@pytest.mark.parametrize("shape", [(None, None, 5), (None, 4, 5)])
def test_gradients_equal_those_of_keras(shape):
    import tensorflow as tf

    weights = np.random.default_rng(2).normal(size=X.shape).astype("float32")
    found = []
    for layer, arguments in zip(both(epsilon=1e-5), ({"training": True}, {}), strict=True):

        @tf.function(input_signature=[tf.TensorSpec(shape)])
        def gradients(x, layer=layer, arguments=arguments):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(weights * layer(x, **arguments))
            return tape.gradient(loss, [x, layer.gamma.value, layer.beta.value])

        found.append(gradients(X))
    for ours, theirs in zip(*found, strict=True):
        assert np.abs(theirs).max() > 0.01
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_computed_in_float32(policy):
    layer = LayerNormalization(dtype=policy)
    large = X * 1e3  # whose square float16 does not have
    outputs = layer(large, training=True)
    assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
    expected = numpy(keras.layers.LayerNormalization()(large))
    np.testing.assert_allclose(numpy(keras.ops.cast(outputs, "float32")), expected, atol=0.02)


def test_no_rows():
    assert LayerNormalization()(np.zeros((0, 4, 5), "float32"), training=True).shape == (0, 4, 5)


def test_config_round_trip():
    layer = LayerNormalization(epsilon=1e-4, name="norm")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert isinstance(copy, LayerNormalization) and copy.get_config() == layer.get_config()
