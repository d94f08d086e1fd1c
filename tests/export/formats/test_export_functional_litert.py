import importlib

import keras
import numpy as np
import pytest

from keras_attn import MultiHeadAttention
from keras_attn.export import ExportError, export_functional_litert

module = importlib.import_module("keras_attn.export._formats.export_functional_litert")

interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs keras-attn[litert]")


def classifier():
    """Returns a classifier of ids with a masked recurrent layer and attention."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(20, 8, mask_zero=True)(ids)
    x = keras.layers.Bidirectional(keras.layers.LSTM(6, return_sequences=True))(x)
    x = MultiHeadAttention(2, 6)(x, x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, keras.layers.Dense(3, activation="softmax", name="scores")(x))


def test_export_functional_litert_equals_keras_at_other_lengths(tmp_path):
    model = classifier()
    sample = np.array([[5, 6, 7, 2], [8, 9, 0, 0]], "int32")
    difference = export_functional_litert(
        model, tmp_path / "model.tflite", sample
    ).largest_difference
    assert difference <= 1e-5
    run = interpreter.Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    for ids in ([[3]], [[4, 5, 6, 7, 8, 9, 0]]):
        ids = np.array(ids, "int32")
        np.testing.assert_allclose(run(ids=ids)["scores"], model(ids), atol=1e-5)


def test_export_functional_litert_refuses_a_file_that_differs(tmp_path, monkeypatch):
    monkeypatch.setattr(
        module, "litert_runner", lambda content: lambda **_: {"scores": np.ones((1, 3), "float32")}
    )
    with pytest.raises(ExportError, match="disagrees with Keras.* pass a larger tolerance"):
        module.export_functional_litert(
            classifier(), tmp_path / "model.tflite", np.array([[5, 6, 7, 2]], "int32")
        )
    assert not list(tmp_path.iterdir())


def test_export_functional_litert_refuses_outputs_without_batch_axis(tmp_path):
    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, keras.ops.sum(inputs))
    with pytest.raises(ValueError, match="with a batch axis"):
        export_functional_litert(model, tmp_path / "model.tflite", np.ones((2, 4), "float32"))


def test_export_functional_litert_explains_a_list_instead_of_an_array(tmp_path):
    with pytest.raises(ValueError, match="one array for each input; use numpy.array"):
        export_functional_litert(classifier(), tmp_path / "model.tflite", [[5, 6, 7, 2]])


def test_export_functional_litert_traces_time_distributed_of_unknown_length(tmp_path):
    inputs = keras.Input((None, 4), name="x")
    model = keras.Model(inputs, keras.layers.TimeDistributed(keras.layers.Dense(3))(inputs))
    sample = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    assert (
        export_functional_litert(model, tmp_path / "model.tflite", sample).largest_difference < 1e-5
    )


def test_export_functional_litert_says_that_a_loop_needs_known_rows(tmp_path):
    inputs = keras.Input((None, 2, 4), name="x")
    model = keras.Model(inputs, keras.layers.TimeDistributed(keras.layers.LSTM(2))(inputs))
    with pytest.raises(ExportError, match="define the sizes of all axes before the time axis"):
        export_functional_litert(model, tmp_path / "model.tflite", np.ones((1, 3, 2, 4), "f"))


def test_export_functional_litert_advises_no_tolerance_for_another_shape(tmp_path, monkeypatch):
    wrong = {"scores": np.ones((1, 4), "float32")}
    monkeypatch.setattr(module, "litert_runner", lambda content: lambda **_: wrong)
    with pytest.raises(ExportError, match="shape .* Replace this operation by another"):
        module.export_functional_litert(
            classifier(), tmp_path / "model.tflite", np.array([[5, 6, 7, 2]], "int32")
        )
