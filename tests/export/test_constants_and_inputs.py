"""Constant tensors in functional models, and unsupported inputs."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_attn.export import export_functional_onnx
from tests.export.small_translator import session

X = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")


@pytest.mark.parametrize("size", [1, 4, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_a_constant_tensor_of_a_model_becomes_part_of_the_file(tmp_path, size, dtype):
    constant = ops.convert_to_tensor((np.arange(size) % 7).astype(dtype))
    x = keras.Input((None, 4), name="x")
    y = ops.sum(x, axis=-1, keepdims=True) * ops.cast(constant, "float32")
    model = keras.Model(x, y)
    assert export_functional_onnx(model, tmp_path / "x.onnx", X).largest_difference < 1e-6
    opened = session(tmp_path / "x.onnx")
    assert [each.name for each in opened.get_inputs()] == ["x"]
    expected = X.sum(-1, keepdims=True) * (np.arange(size) % 7).astype(dtype).astype("float32")
    np.testing.assert_allclose(opened.run(None, {"x": X})[0], expected, rtol=1e-4, atol=1e-5)


def test_constant_tensors_may_be_sizes_and_be_read_in_a_loop(tmp_path):
    shape, step = (
        ops.convert_to_tensor([-1, 2, 10]),
        ops.convert_to_tensor(np.arange(4.0, dtype="f")),
    )

    class Steps(layers.Layer):
        def call(self, x):
            return ops.reshape(ops.fori_loop(0, 3, lambda _, value: value + step, x), shape)

    x = keras.Input((5, 4), name="x")
    export_functional_onnx(keras.Model(x, Steps()(x)), tmp_path / "x.onnx", X)
    (found,) = session(tmp_path / "x.onnx").run(None, {"x": X})
    np.testing.assert_allclose(found, (X + 3 * np.arange(4)).reshape(-1, 2, 10), atol=1e-6)


def test_inputs_of_strings_are_refused_by_name(tmp_path):
    text = keras.Input((1,), dtype="string", name="text")
    ids = layers.TextVectorization(vocabulary=["a", "b"])(text)
    model = keras.Model(text, layers.GRU(2)(layers.Embedding(5, 3)(ids)))
    with pytest.raises(ValueError, match=r"dtype string, \['text'\].*TextVectorization"):
        export_functional_onnx(model, tmp_path / "x.onnx", np.array([["a b"], ["b"]], object))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "bfloat16"}, r"Received: \{'x': 'bfloat16'\}"),
        ({"dtype": "complex64"}, r"Received: \{'x': 'complex64'\}"),
        ({"sparse": True}, r"sparse inputs, \['x'\]"),
        ({"ragged": True}, r"ragged inputs, \['x'\]"),
    ],
    ids=["bfloat16", "complex64", "sparse", "ragged"],
)
def test_inputs_that_a_file_cannot_have_are_refused_by_name(tmp_path, options, message):
    x = keras.Input((4,), name="x", **options)
    model = keras.Model(x, layers.Identity()(x))
    with pytest.raises(ValueError, match=message):
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 4)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("layer", [layers.RandomHue, layers.RandomSaturation])
def test_a_layer_that_draws_unused_numbers_in_inference_is_exported(tmp_path, layer):
    x = keras.Input((6, 6, 3), name="x")
    model = keras.Model(x, layer(0.5)(x) * 2.0)
    images = np.random.default_rng(0).integers(0, 256, (2, 6, 6, 3)).astype("float32")
    export_functional_onnx(model, tmp_path / "x.onnx", images)
    (found,) = session(tmp_path / "x.onnx").run(None, {"x": images})
    np.testing.assert_allclose(found, 2 * images, rtol=1e-6)
