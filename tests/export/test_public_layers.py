"""Each public layer exports in a functional Keras model, and the file computes the same."""

import keras
import numpy as np
import pytest

from tests.public_layers import LAYERS, layer_and_inputs

pytest.importorskip("tf2onnx")
from keras_attn.export import export_functional_litert, export_functional_onnx


def model_and_arrays(name):
    layer, values = layer_and_inputs(name)
    arrays = [np.asarray(each) for each in keras.tree.flatten(values)]
    inputs = [keras.Input(each.shape[1:], dtype=each.dtype.name) for each in arrays]
    outputs = layer(**keras.tree.pack_sequence_as(values, inputs))
    return keras.Model(inputs, outputs), arrays


@pytest.mark.parametrize("name", LAYERS)
def test_layer_in_an_onnx_file(name, tmp_path):
    model, arrays = model_and_arrays(name)
    export_functional_onnx(model, tmp_path / "model.onnx", arrays)  # compares the file with Keras
    assert (tmp_path / "model.onnx").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layer_in_a_litert_file(name, tmp_path):
    pytest.importorskip("ai_edge_litert")
    model, arrays = model_and_arrays(name)
    export_functional_litert(model, tmp_path / "model.tflite", arrays)
    assert (tmp_path / "model.tflite").stat().st_size > 0
