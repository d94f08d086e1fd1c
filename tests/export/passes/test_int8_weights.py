import numpy as np
import pytest
from onnx import TensorProto

from keras_attn.export._passes import int8_weights, int8_weights_of_rows
from tests.export.small_graphs import (
    constant,
    loop_bodies,
    model,
    node,
    operators,
    product_body,
    run,
    value,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 16)).astype("float32")
WEIGHT = RNG.normal(size=(16, 16)).astype("float32") * RNG.uniform(0.1, 10, 16).astype("float32")
QUANTIZED = ["DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul"]


def products():
    """Returns a graph of products: with a weight, with a computed weight, and of two tensors."""
    return model(
        [
            node("MatMul", "x weight", "a"),
            node("Transpose", "weight", "turned"),
            node("MatMul", "x turned", "b"),
            node("Transpose", "b", "b_turned"),
            node("MatMul", "a b_turned", "y"),
        ],
        [value("x", shape=[None, 16])],
        [value("a", shape=[None, 16]), value("y", shape=[None, None])],
        [constant("weight", WEIGHT)],
    )


def expected(x, weight):
    """Returns the product of both matrices rounded to 8 bits."""
    scales = np.abs(weight).max(axis=0) / 64
    low, high = min(x.min(), 0), max(x.max(), 0)
    step = (high - low) / 255
    zero_point = np.rint(-low / step)
    rounded = (np.clip(np.rint(x / step) + zero_point, 0, 255) - zero_point) * step
    return rounded @ (np.rint(weight / scales) * scales)


def test_products_with_weights_are_those_of_integers():
    made = products()
    int8_weights(made)
    kinds = operators(made.graph)
    # A shared input is quantized once; the product of two tensors does not change.
    assert [kinds.count(kind) for kind in ("DynamicQuantizeLinear", "MatMulInteger")] == [1, 2]
    assert kinds.count("MatMul") == 1 and kinds[-1] == "MatMul"
    a, y = run(made, x=X)
    np.testing.assert_allclose(a, expected(X, WEIGHT), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(y, a @ expected(X, WEIGHT.T).T, rtol=1e-2, atol=1e-1)
    relative = np.abs(a - X @ WEIGHT).max(axis=0) / np.abs(X @ WEIGHT).max(axis=0)
    assert 0 < relative.max() < 0.05


def test_the_floats_are_gone_and_the_integers_cannot_overflow_16_bits():
    made = products()
    int8_weights(made)
    tensors = {tensor.name: tensor for tensor in made.graph.initializer}
    kinds = {tensor.data_type for tensor in tensors.values() if len(tensor.dims) == 2}
    assert kinds == {TensorProto.INT8}
    for tensor in tensors.values():
        if tensor.data_type == TensorProto.INT8:
            integers = np.frombuffer(tensor.raw_data, "int8").astype(int)
            assert np.abs(integers).max() == 64
            assert 2 * 255 * np.abs(integers).max() < 2**15


def test_a_weight_that_is_a_product_of_two():
    made = model(
        [node("MatMul", "left weight", "both"), node("MatMul", "x both", "y")],
        [value("x", shape=[None, 16])],
        [value("y", shape=[None, 16])],
        [constant("left", WEIGHT), constant("weight", WEIGHT.T)],
    )
    int8_weights(made)
    (y,) = run(made, x=X)
    np.testing.assert_allclose(y, X @ WEIGHT @ WEIGHT.T, rtol=0.1, atol=20)


@pytest.mark.parametrize("column", [0.0, 1e-30])
def test_a_column_of_zeros(column):
    made = products()
    weight = WEIGHT.copy()
    weight[:, 3] = column
    made.graph.initializer[0].CopyFrom(constant("weight", weight))
    int8_weights(made)
    a, y = run(made, x=X)
    assert np.isfinite(y).all()
    np.testing.assert_allclose(a[:, 3], 0, atol=1e-25)


def test_weights_of_a_loop_are_quantized_too():
    made = model(
        [node("Loop", "trips yes x", "y", body=product_body())],
        [value("x", shape=[None, 16])],
        [value("y", shape=[None, 16])],
        [constant("weight", WEIGHT), constant("trips", 2), constant("yes", True)],
    )
    int8_weights(made)
    assert operators(loop_bodies(made)[0]) == ["Identity", *QUANTIZED]
    received = run(made, x=X)[0]
    np.testing.assert_allclose(received, expected(expected(X, WEIGHT), WEIGHT), rtol=1e-2, atol=1)


def expected_of_rows(x, weight):
    """Returns the product of both matrices rounded to 8 bits, with a scale for each row of `x`."""
    scales = np.abs(weight).max(axis=0) / 64
    steps = np.maximum(np.abs(x).max(axis=-1, keepdims=True), 1e-30) / 127
    return (np.rint(x / steps) * steps) @ (np.rint(weight / scales) * scales)


def test_scales_of_rows_do_not_depend_on_other_rows():
    x = X * np.array([[1e-3], [1], [0], [1e3], [30]], "float32")
    made = products()
    int8_weights_of_rows(made)
    a, y = run(made, x=x)
    np.testing.assert_allclose(a, expected_of_rows(x, WEIGHT), rtol=1e-4, atol=1e-6)
    assert not a[2].any() and np.isfinite(y).all()
    for row in range(len(x)):
        alone, _ = run(made, x=x[row : row + 1])
        np.testing.assert_array_equal(alone[0], a[row])
    of_tensor = products()
    int8_weights(of_tensor)
    differences = [np.abs(each[0] - (x @ WEIGHT)[0]).max() for each in (a, run(of_tensor, x=x)[0])]
    assert differences[0] < 0.05 * differences[1]  # rows of small and of large values


def test_an_input_of_two_products_has_one_scale_a_row():
    made = products()
    int8_weights_of_rows(made)
    kinds = operators(made.graph)
    assert [kinds.count(kind) for kind in ("QuantizeLinear", "MatMulInteger")] == [1, 2]
    assert "DynamicQuantizeLinear" not in kinds


def test_rows_of_a_loop_have_scales_too():
    made = model(
        [node("Loop", "trips yes x", "y", body=product_body())],
        [value("x", shape=[None, 16])],
        [value("y", shape=[None, 16])],
        [constant("weight", WEIGHT), constant("trips", 2), constant("yes", True)],
    )
    int8_weights_of_rows(made)
    received = run(made, x=X)[0]
    np.testing.assert_allclose(
        received, expected_of_rows(expected_of_rows(X, WEIGHT), WEIGHT), rtol=1e-2, atol=1
    )
