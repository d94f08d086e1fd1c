import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn.export import ExportError, export_functional_onnx
from keras_attn.export._checks.onnx_operator_check import check_model
from keras_attn.export._checks.onnx_runner import open_session
from keras_attn.export._passes import lower_constants
from tests.export.conversion_steps import convert

EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("i,i->", [(3,), (3,)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,ij->j", [(3,), (3, 4)]),
    ("abc,cde->abde", [(2, 3, 4), (4, 5, 6)]),
    ("abcd,cde->abe", [(2, 3, 4, 5), (4, 5, 6)]),
    ("aecd,abcd->acbe", [(2, 3, 4, 5), (2, 6, 4, 5)]),
    ("acbe,aecd->abcd", [(2, 3, 4, 5), (2, 5, 3, 6)]),
    ("abcde,abfde->adbcf", [(2, 3, 4, 5, 6), (2, 3, 7, 5, 6)]),
    ("ab,ab->ab", [(2, 3), (2, 3)]),
    ("abc,ad->bd", [(2, 3, 4), (2, 5)]),
    ("abc->ca", [(2, 3, 4)]),
    ("abc->", [(2, 3, 4)]),
    ("aB,Ab->Bb", [(2, 3), (4, 5)]),
    ("...i,ij->...j", [(2, 3, 4), (4, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 6)]),
    ("b...,b...->b...", [(2, 3, 4), (2, 3, 4)]),
]


@pytest.mark.parametrize("shapes_are_known", [True, False])
@pytest.mark.parametrize("equation, shapes", EQUATIONS, ids=[each for each, _ in EQUATIONS])
def test_einsum_products_equal_numpy(tmp_path, equation, shapes, shapes_are_known):
    signature = [
        tf.TensorSpec(shape if shapes_are_known else [None] * len(shape), tf.float32, name=name)
        for shape, name in zip(shapes, "xy", strict=False)
    ]
    model = convert(lambda *values: {"z": tf.einsum(equation, *values)}, signature, [])
    lower_constants(model)
    check_model(model)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    run = open_session(tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype("float32") for shape in shapes]
    found = run(**dict(zip("xy", arrays, strict=False)))["z"]
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), atol=1e-5)


def test_einsum_products_of_an_empty_batch(tmp_path):
    signature = [tf.TensorSpec((None, None, 4, 5), tf.float32, name=name) for name in "xy"]
    model = convert(lambda x, y: {"z": tf.einsum("aecd,abcd->acbe", x, y)}, signature, [])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    run = open_session(tmp_path / "m.onnx")
    for batch, target, source in ((0, 3, 2), (2, 0, 3), (2, 3, 0)):
        x, y = (np.ones((batch, time, 4, 5), "float32") for time in (target, source))
        assert run(x=x, y=y)["z"].shape == (batch, 4, source, target)


def test_an_einsum_of_a_diagonal_is_refused():
    signature = [tf.TensorSpec((3, 3), tf.float32, name="x")]
    with pytest.raises(ExportError, match="different letters for the axes"):
        convert(lambda x: {"y": tf.einsum("ii->i", x)}, signature, [])


@pytest.mark.parametrize("axes", [(2,), (1, 2)], ids=str)
@pytest.mark.parametrize("package", [keras.layers, keras_attn], ids=["keras", "keras_attn"])
def test_attention_axes_are_exported(tmp_path, package, axes):
    inputs = keras.Input((3, None, 8), name="x")
    layer = package.MultiHeadAttention(2, 4, attention_axes=axes)
    model = keras.Model(inputs, layer(inputs, inputs))
    sample = np.random.default_rng(0).normal(size=(2, 3, 4, 8)).astype("float32")
    assert export_functional_onnx(model, tmp_path / "m.onnx", sample).largest_difference < 1e-5
