"""A model can be used while it is exported, and does not change."""

import collections
import threading

import keras
import numpy as np
import pytest

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export import (
    export_functional_onnx,
    export_onnx,
    export_onnx_steps,
    export_onnx_text,
    export_saved_model,
)
from tests.contracts import numpy
from tests.export.conversion_steps import replace_conversion

layers = keras.layers


@pytest.fixture
def changes(monkeypatch):
    """Records the attributes that are set, as pairs of the id of a layer and the attribute name."""
    found, set_attribute = set(), keras.Layer.__setattr__

    def record(layer, name, value):
        if name != "_self_setattr_tracking":  # Keras sets it when it lists variables
            found.add((id(layer), name))
        set_attribute(layer, name, value)

    monkeypatch.setattr(keras.Layer, "__setattr__", record)
    return found


def assert_unchanged(model, changes):
    ids = {id(layer) for layer in flatten_layers([model])}
    names = {name for layer, name in changes if layer in ids}
    assert changes and not names


def test_export_functional_onnx_sets_no_attribute_of_the_model(tmp_path, changes):
    inputs = keras.Input((None, 3))
    hidden = layers.Bidirectional(layers.GRU(2, dropout=0.1, return_sequences=True))(inputs)
    model = keras.Model(
        inputs, layers.TimeDistributed(layers.Dense(2, dtype="mixed_float16"))(hidden)
    )
    changes.clear()
    export_functional_onnx(model, tmp_path / "model.onnx", np.ones((2, 4, 3)))
    assert_unchanged(model, changes)


def test_export_onnx_sets_no_attribute_of_the_model(
    translator, onnx_model, tmp_path, monkeypatch, changes
):
    replace_conversion(monkeypatch, "export_onnx", onnx_model)
    export_onnx(translator, tmp_path / "model.onnx")
    assert_unchanged(translator, changes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "int8", "steps", "text", "saved-model"])
def test_another_thread_uses_the_model_during_an_export(translator, tokenizers, tmp_path, kind):
    exports = {
        "onnx": lambda path: export_onnx(translator, path),
        "int8": lambda path: export_onnx(translator, path, precision="int8"),
        "steps": lambda path: export_onnx_steps(translator, path),
        "text": lambda path: export_onnx_text(translator, path, *tokenizers),
        "saved-model": lambda path: export_saved_model(translator, path, *tokenizers),
    }
    ids, stop, results = np.array([[5, 6, 7, 2], [8, 9, 2, 0]], "int32"), threading.Event(), []
    encoder = translator.encoder
    expected = numpy(encoder(ids)["encoder_outputs"])

    def use():
        while not stop.wait(0.02):
            try:
                found = numpy(encoder(ids)["encoder_outputs"])
                results.append("equal" if np.allclose(found, expected, atol=1e-6) else "different")
            except Exception as error:
                results.append(repr(error))

    thread = threading.Thread(target=use)
    thread.start()
    try:
        exports[kind](tmp_path / "model")
        while len(results) < 100 and thread.is_alive():
            stop.wait(0.1)
    finally:
        stop.set()
        thread.join()
    assert collections.Counter(results).keys() == {"equal"}
