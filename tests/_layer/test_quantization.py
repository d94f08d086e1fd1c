"""Keras' quantization is refused as a whole, and works on what is not ours."""

import keras
import numpy as np
import pytest
from keras import tree

from keras_attn import FeedForward, TransformerEncoderBlock
from tests.contracts import assert_identical, numpy
from tests.public_layers import LAYERS, layer_and_inputs


def functional_model(layer, inputs):
    def symbol(array):
        dtype = keras.backend.standardize_dtype(array.dtype)
        return keras.Input(batch_shape=(None, *array.shape[1:]), dtype=dtype)

    symbolic = tree.map_structure(symbol, inputs)
    outputs = [each for each in tree.flatten(layer(**symbolic)) if each is not None]
    return keras.Model(tree.flatten(symbolic), outputs)


@pytest.mark.parametrize("name", LAYERS)
def test_model_with_a_public_layer_is_not_quantized(name):
    model = functional_model(*layer_and_inputs(name))
    before = model.get_weights()
    with pytest.raises(ValueError, match=rf"{name}.*mode=\'int8\'.*export_onnx\(..., precision"):
        model.quantize("int8")
    assert_identical(model.get_weights(), before)
    assert all(layer.quantization_mode is None for layer in model._flatten_layers())


def mixed_model():
    inputs = keras.Input((None, 8))
    hidden = keras.layers.Dense(8, name="first")(inputs)
    hidden = TransformerEncoderBlock(2, 16, name="block")(hidden)
    return keras.Model(inputs, keras.layers.Dense(4, name="head")(hidden))


def test_quantization_is_refused_before_anything_changes():
    model, x = mixed_model(), np.ones((2, 3, 8), "float32")
    before = model.predict(x, verbose=0)
    for filters in (None, "expansion", ["head", "contraction"], lambda layer: True):
        with pytest.raises(ValueError, match="'block'"):
            model.quantize("int8", filters=filters)
    assert model.get_layer("first").quantization_mode is None
    np.testing.assert_array_equal(model.predict(x, verbose=0), before)


@pytest.mark.parametrize(
    "filters", ["^(first|head)$", ["^first$"], lambda layer: layer.name == "head"]
)
def test_filters_may_select_layers_of_keras(filters, tmp_path):
    model, x = mixed_model(), np.ones((2, 3, 8), "float32")
    model.predict(x, verbose=0)
    model.quantize("int8", filters=filters)
    modes = {model.get_layer(name).quantization_mode for name in ("first", "head")}
    assert "int8" in modes
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), model.predict(x, verbose=0), atol=1e-6)


def test_models_of_keras_alone_are_quantized():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    with pytest.warns(UserWarning, match="InputLayer"):
        model.quantize("int8")
    assert model.layers[0].quantization_mode == "int8"


def test_layer_is_not_quantized():
    layer = FeedForward(8)
    layer(np.ones((1, 2, 4), "float32"))
    with pytest.raises(NotImplementedError, match="FeedForward.*mode='int8'"):
        layer.quantize("int8")
    assert numpy(layer.expansion.kernel).dtype == "float32"


def test_dtype_policy_that_quantizes_is_refused():
    with pytest.raises(ValueError, match="dtype='int8_from_float32' for FeedForward"):
        FeedForward(8, dtype="int8_from_float32")
