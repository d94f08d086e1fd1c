import numpy as np
import onnx
import pytest
from onnx import TensorProto

from keras_attn._masks import MASKED_SCORE
from keras_attn.export._passes import emulate_float16, half_precision
from keras_attn.export._passes.value_types import value_types
from tests.export.small_graphs import (
    BOOL,
    INT64,
    constant,
    graph,
    loop_bodies,
    model,
    node,
    operators,
    run,
    value,
)

HALF = TensorProto.FLOAT16
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 16)).astype("float32")
KERNEL = RNG.normal(size=(16, 16)).astype("float32")
BIAS = RNG.normal(size=16).astype("float32")


def half(array):
    return array.astype("float16").astype("float32")


def attention(scale=0.25):
    """Returns a graph of attention: a product, a mask, a softmax and a second product."""
    return model(
        [
            node("MatMul", "x kernel", "linear"),
            node("Add", "linear bias", "shifted"),
            node("Relu", "shifted", "hidden"),
            node("Transpose", "hidden", "turned"),
            node("MatMul", "hidden turned", "scores"),
            node("Mul", "scores scale", "scaled"),
            node("Mul", "hidden_from mask", "added"),
            node("Add", "scaled added", "masked"),
            node("Softmax", "masked", "weights"),
            node("MatMul", "weights hidden", "y"),
        ],
        [value("x", shape=[None, 16]), value("hidden_from", shape=[None, None])],
        [value("y", shape=[None, 16])],
        [
            constant("kernel", KERNEL),
            constant("bias", BIAS),
            constant("scale", np.float32(scale)),
            constant("mask", np.float32(MASKED_SCORE)),
        ],
    )


def halves(made):
    return {name for name, type_ in value_types(made).items() if type_ == HALF}


def test_products_and_what_lies_between_them_are_half_and_masks_and_softmax_are_not():
    made = attention()
    half_precision(made)
    types = value_types(made)
    assert halves(made) > {"linear", "shifted", "hidden", "turned", "scores", "scaled"}
    assert all(types[name] == TensorProto.FLOAT for name in ("added", "masked", "weights"))
    # Input, scores, weights and result.
    assert operators(made.graph).count("Cast") == 4
    assert made.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    kinds = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    assert kinds == {
        "mask": TensorProto.FLOAT,
        **dict.fromkeys(("kernel/float16", "bias/float16", "scale/float16"), HALF),
    }


def test_computes_the_same_to_float16():
    made, hidden_from = attention(), np.triu(np.ones((5, 5), "float32"), 1)
    (expected,) = run(attention(), x=X, hidden_from=hidden_from)
    half_precision(made)
    (received,) = run(made, x=X, hidden_from=hidden_from)
    assert 0 < np.abs(received - expected).max() < 1e-2
    np.testing.assert_allclose(received[0], half(np.maximum(X @ KERNEL + BIAS, 0)[0]), atol=1e-2)


@pytest.mark.parametrize("number", [1e-9, 7e4, MASKED_SCORE])
def test_what_meets_a_number_that_float16_does_not_know_is_full(number):
    made = attention(scale=number)
    half_precision(made)
    assert value_types(made)["scaled"] == TensorProto.FLOAT


def test_a_state_of_a_loop_has_one_type():
    """One state starts as float32 zeros and becomes a product; the other state is a counter."""
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("MatMul", "x kernel", "product"),
            node("Add", "state product", "state_out"),
            node("Add", "count one", "count_out"),
        ],
        [value("i", INT64, []), value("c", BOOL, []), value("state"), value("count")],
        [value("c_out", BOOL, []), value("state_out"), value("count_out"), value("product")],
        name="body",
    )
    made = model(
        [
            node("Sub", "x x", "zeros"),
            node("Loop", "trips yes zeros zero", "sum number products", body=body),
        ],
        [value("x", shape=[None, 16])],
        [
            value("sum", shape=[None, 16]),
            value("number", shape=[]),
            value("products", shape=[3, None, 16]),
        ],
        [
            constant("kernel", KERNEL),
            constant("trips", 3),
            constant("yes", True),
            constant("one", np.float32(1)),
            constant("zero", np.float32(0)),
        ],
    )
    half_precision(made)
    onnx.checker.check_model(made, full_check=True)
    (inside,) = loop_bodies(made)
    declared = {each.name: each.type.tensor_type.elem_type for each in inside.input}
    assert declared["state"] == HALF and declared["count"] == TensorProto.FLOAT
    assert "Cast" not in operators(inside)
    total, number, products = run(made, x=X)
    np.testing.assert_allclose(total, 3 * half(X) @ half(KERNEL), rtol=1e-2, atol=1e-1)
    np.testing.assert_allclose(products[2], half(X) @ half(KERNEL), rtol=1e-2, atol=1e-2)
    assert number == 3


def test_branches_agree():
    branches = {
        "then_branch": graph([node("MatMul", "x kernel", "a")], [], [value("a")], name="then"),
        "else_branch": graph([node("Identity", "x", "b")], [], [value("b")], name="else"),
    }
    made = model(
        [node("If", "yes", "either", **branches), node("Relu", "either", "y")],
        [value("x", shape=[None, 16]), value("yes", BOOL, [])],
        [value("y", shape=[None, 16])],
        [constant("kernel", KERNEL)],
    )
    half_precision(made)
    assert "either" in halves(made)
    for yes in (True, False):
        expected = np.maximum(X @ KERNEL if yes else X, 0)
        received = run(made, x=X, yes=np.array(yes))[0]
        np.testing.assert_allclose(received, expected, rtol=1e-2, atol=1e-2)


def emulated(scale=0.25):
    made = attention(scale)
    half_precision(made)
    emulate_float16(made)
    assert not halves(made)
    return made


def test_the_emulation_rounds_each_result():
    made, hidden_from = emulated(), np.zeros((5, 5), "float32")
    (received,) = run(made, x=X, hidden_from=hidden_from)
    shifted = half(half(half(X) @ half(KERNEL)) + half(BIAS))
    hidden = np.maximum(shifted, 0)
    scaled = half(half(hidden @ hidden.T) * 0.25)
    weights = np.exp(scaled - scaled.max(1, keepdims=True))
    weights = half(weights / weights.sum(1, keepdims=True))
    normal = np.abs(received) > 2**-14
    np.testing.assert_array_equal(received[normal], half(received)[normal])
    np.testing.assert_allclose(received, half(weights @ hidden), rtol=2e-3, atol=1e-6)


def test_the_emulation_overflows_where_onnx_runtime_on_a_cpu_does_not():
    """If the first assertion fails, ONNX Runtime computes in float16; remove the emulation."""
    made, hidden_from = attention(), np.zeros((5, 5), "float32")
    half_precision(made)
    assert np.isfinite(run(made, x=1e3 * X, hidden_from=hidden_from)[0]).all()
    assert not np.isfinite(run(emulated(), x=1e3 * X, hidden_from=hidden_from)[0]).all()
