import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from keras_attn.export._passes import int4_weights, lower_constants
from tests.export.small_graphs import (
    constant,
    loop_bodies,
    model,
    node,
    operators,
    optimized_operators,
    product_body,
    run,
    value,
)

RNG = np.random.default_rng(0)
SIZE = 72  # two blocks of 32 inputs and a part of one
X = RNG.normal(size=(5, SIZE)).astype("float32")
WEIGHT = RNG.normal(size=(SIZE, SIZE)).astype("float32") * RNG.uniform(0.1, 10, SIZE).astype("f")


def products():
    """Returns a graph of products: with a weight, with a computed weight, and of two tensors."""
    return model(
        [
            node("MatMul", "x weight", "a"),
            node("Transpose", "weight", "turned"),
            node("MatMul", "x turned", "b"),
            node("MatMul", "a turned", "c"),
            node("Transpose", "b", "b_turned"),
            node("MatMul", "c b_turned", "y"),
        ],
        [value("x", shape=[None, SIZE])],
        [value(name, shape=[None, None]) for name in "abcy"],
        [constant("weight", WEIGHT)],
    )


def loop():
    """Returns a graph that reads one weight before a loop and inside it."""
    return model(
        [
            node("MatMul", "x weight", "first"),
            node("Loop", "trips yes first", "y", body=product_body()),
        ],
        [value("x", shape=[None, SIZE])],
        [value("y", shape=[None, SIZE])],
        [constant("weight", WEIGHT / 20), constant("trips", 2), constant("yes", True)],
    )


def in_4_bits(weight):
    """Rounds a matrix to 4 bits, one weight at a time."""
    rounded = np.empty_like(weight)
    for output in range(weight.shape[1]):
        for first in range(0, len(weight), 32):
            block = weight[first : first + 32, output]
            scale = max(block, key=abs) / -8
            for row, each in enumerate(block, first):
                rounded[row, output] = scale * min(max(round(float(each / scale)), -8), 7)
    return rounded


def test_products_read_weights_of_4_bits(tmp_path):
    made = products()
    int4_weights(made)
    # Also the weight that two products share; the product of two tensors does not change.
    kinds = operators(made.graph)
    assert [kinds.count(kind) for kind in ("DequantizeLinear", "MatMul")] == [3, 4]
    kinds = optimized_operators(made, tmp_path)
    assert [kinds.count(kind) for kind in ("MatMulNBits", "DequantizeLinear")] == [3, 0]
    assert made.opset_import[0].version == 21 and made.ir_version >= 10
    a, b, c, y = run(made, x=X)
    # ONNX Runtime also rounds the inputs to 8 bits.
    for received, expected in (
        (a, X @ in_4_bits(WEIGHT)),
        (b, X @ in_4_bits(WEIGHT.T)),
        (c, a @ in_4_bits(WEIGHT.T)),
        (y, c @ b.T),
    ):
        np.testing.assert_allclose(received, expected, atol=0.015 * np.abs(expected).max())
    relative = np.linalg.norm(a - X @ WEIGHT) / np.linalg.norm(X @ WEIGHT)
    assert 0.05 < relative < 0.12


def test_what_is_stored_is_the_nearest_of_16_steps():
    made = products()
    int4_weights(made)
    tensors = {tensor.name: tensor for tensor in made.graph.initializer}
    assert all(tensor.dims != [SIZE, SIZE] or tensor.data_type == 22 for tensor in tensors.values())
    assert tensors["a/int4"].data_type == onnx.TensorProto.INT4
    assert len(tensors["a/int4"].raw_data) == SIZE * SIZE // 2
    integers = numpy_helper.to_array(tensors["a/int4"]).astype("float32")
    scales = numpy_helper.to_array(tensors["a/scales"])
    assert scales.shape == (3, SIZE)
    received = integers * np.repeat(scales, 32, axis=0)[:SIZE]
    np.testing.assert_allclose(received, in_4_bits(WEIGHT), rtol=1e-6, atol=1e-6)
    for block in np.array_split(integers, [32, 64]):
        assert (block.min(axis=0) == -8).all()  # the value furthest from zero


@pytest.mark.parametrize("column", [0.0, 1e-30])
def test_a_column_of_zeros(column):
    made = products()
    weight = WEIGHT.copy()
    weight[:, 3] = column
    made.graph.initializer[0].CopyFrom(constant("weight", weight))
    int4_weights(made)
    a, *_, y = run(made, x=X)
    assert np.isfinite(y).all()
    np.testing.assert_allclose(a[:, 3], 0, atol=1e-25)


def test_each_graph_has_the_weights_of_its_products():
    """ONNX Runtime finds int4 weights only in the graph that uses them."""
    made = loop()
    int4_weights(made)
    lower_constants(made)
    (body,) = loop_bodies(made)
    assert operators(body) == ["Identity", "DequantizeLinear", "MatMul"]
    assert [tensor.name for tensor in body.initializer] == ["h_out/int4", "h_out/scales"]
    assert {"first/int4", "first/scales"} <= {tensor.name for tensor in made.graph.initializer}
    expected = X
    for _ in range(3):
        expected = expected @ in_4_bits(WEIGHT / 20)
    received = run(made, x=X)[0]
    np.testing.assert_allclose(received, expected, atol=0.03 * np.abs(expected).max())


def test_onnx_runtime_multiplies_by_the_4_bits(tmp_path):
    made = loop()
    int4_weights(made)
    lower_constants(made)
    assert sorted(optimized_operators(made, tmp_path)) == [
        "Identity",
        "Loop",
        "MatMulNBits",
        "MatMulNBits",
    ]


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "Abs"])
def test_also_before_an_activation(activation, has_bias, tmp_path):
    weight, bias = WEIGHT / 100, RNG.normal(size=SIZE).astype("float32") * has_bias
    limits = " zero six" if activation == "Clip" else ""
    made = model(
        [
            node("MatMul", "x weight", "product"),
            *([node("Add", "product bias", "sum")] if has_bias else []),
            node(activation, ("sum" if has_bias else "product") + limits, "activated"),
            node("Neg", "activated", "y"),
        ],
        [value("x", shape=[None, SIZE])],
        [value("y", shape=[None, SIZE])],
        [
            constant("weight", weight),
            constant("bias", bias),
            constant("zero", np.float32(0)),
            constant("six", np.float32(6)),
        ],
    )
    int4_weights(made)
    kinds = optimized_operators(made, tmp_path)
    assert "MatMulNBits" in kinds and "DequantizeLinear" not in kinds
    sums = X @ in_4_bits(weight) + bias
    expected = {
        "Relu": np.maximum(sums, 0),
        "Tanh": np.tanh(sums),
        "Sigmoid": 1 / (1 + np.exp(-sums)),
        "LeakyRelu": np.where(sums > 0, sums, 0.01 * sums),
        "Clip": np.clip(sums, 0, 6),
        "Abs": np.abs(sums),
    }[activation]
    np.testing.assert_allclose(run(made, x=X)[0], -expected, atol=0.03)
