"""Exported files avoid operators that fail with empty tensors in ONNX Runtime before 1.31."""

import numpy as np
import pytest

from keras_attn.export._passes import nonnegative_axes, top_k_of_no_rows
from tests.export.small_graphs import (
    INT64,
    constant,
    graph,
    model,
    node,
    operators,
    optimized_operators,
    run,
    value,
)

VALUES = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")


def reduced(operator, axis, shape=("a", "b", 4), **attributes):
    """Returns a graph with one reduction; the axis of ArgMax and ArgMin is an attribute."""
    if operator.startswith("Arg"):
        inputs, constants, attributes["axis"] = "x", [], axis
    else:
        inputs, constants = "x axes", [constant("axes", np.array([axis]))]
    type_ = INT64 if operator.startswith("Arg") else 1
    return model(
        [node(operator, inputs, "y", **attributes)],
        [value("x", shape=shape)],
        [value("y", type_, ["p", "q", "r"] if attributes["keepdims"] else ["p", "q"])],
        constants,
    )


@pytest.mark.parametrize("axis", [-1, -2, -3, 0, 2])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "ReduceMean", "ArgMax"])
def test_axes_are_counted_from_the_first(operator, axis, keepdims):
    made = reduced(operator, axis, keepdims=keepdims)
    (expected,) = run(made, x=VALUES)
    nonnegative_axes(made)
    np.testing.assert_array_equal(run(made, x=VALUES)[0], expected)
    (reduction,) = made.graph.node
    found = [each.i for each in reduction.attribute if each.name == "axis"]
    if not found:
        names = {tensor.name: tensor for tensor in made.graph.initializer}
        found = list(np.frombuffer(names[reduction.input[1]].raw_data, "int64"))
    assert found == [axis % 3]


def test_axis_of_a_normalization_stays(tmp_path):
    """Inside a loop, without shapes, ONNX Runtime recognizes a normalization by the axis -1."""
    made = model(
        [
            node("ReduceMean", "x axes", "mean", keepdims=1),
            node("Sub", "x mean", "centered"),
            node("Pow", "centered two", "squares"),
            node("ReduceMean", "squares axes", "variance", keepdims=1),
            node("Add", "variance epsilon", "shifted"),
            node("Sqrt", "shifted", "deviation"),
            node("Div", "centered deviation", "normal"),
            node("Mul", "normal gamma", "scaled"),
            node("Add", "scaled beta", "y"),
        ],
        [value("x", shape=["a", "b", 4])],
        [value("y", shape=["a", "b", 4])],
        [
            constant("axes", np.array([-1])),
            constant("two", np.float32(2)),
            constant("epsilon", np.float32(1e-6)),
            constant("gamma", np.ones(4, "f")),
            constant("beta", np.zeros(4, "f")),
        ],
    )
    nonnegative_axes(made)
    assert optimized_operators(made, tmp_path) == ["LayerNormalization"]
    assert made.graph.node[0].input[1] == made.graph.node[3].input[1] == "axes"


def searched(shape=("rows", "columns"), inside_loop=False):
    """Returns a graph that selects the two largest numbers of each row."""
    top_k = node("TopK", "x k", "values indices", axis=-1)
    found = [*(f"found{number}" for number in range(len(shape) - 1)), 2]
    results = [value("values", shape=found), value("indices", INT64, found)]
    inputs, constants = [value("x", shape=shape)], [constant("k", np.array([2]))]
    if not inside_loop:
        return model([top_k], inputs, results, constants)
    body = graph(
        [node("Identity", "c", "c_out"), top_k],
        [value("i", INT64, []), value("c", 9, [])],
        [value("c_out", 9, []), *results],
        name="body",
    )
    loop = node("Loop", "times yes", "all_values all_indices", body=body)
    constants += [constant("times", np.array(3)), constant("yes", np.array(True))]
    found = [3, *found]
    found = [value("all_values", shape=found), value("all_indices", INT64, found)]
    return model([loop], inputs, found, constants)


@pytest.mark.parametrize("inside_loop", [False, True])
@pytest.mark.parametrize("shape", [(2, 4), (1, 2), (2, 3, 4), (0, 4), (2, 0, 4), (0, 0, 4)])
def test_top_k_has_a_row(shape, inside_loop):
    names = [f"axis{number}" for number in range(len(shape))]
    made = searched(names, inside_loop)
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    expected = run(made, x=x)
    top_k_of_no_rows(made)
    for found, wanted in zip(run(made, x=x), expected, strict=True):
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    if inside_loop:
        return
    (top_k,) = [each for each in made.graph.node if each.op_type == "TopK"]
    made.graph.output.append(value(top_k.input[0], shape=["read", "columns"]))
    *_, read = run(made, x=x)
    assert read.shape == (np.prod(shape[:-1], dtype=int) + 1, shape[-1])


def test_top_k_whose_values_are_not_read():
    made = searched()
    del made.graph.output[0]
    x = VALUES[0]
    (expected,) = run(made, x=x)
    top_k_of_no_rows(made)
    np.testing.assert_array_equal(run(made, x=x)[0], expected)


@pytest.mark.parametrize("shape", [(3, 4), (5,), ("columns",)])
def test_top_k_that_always_has_a_row_stays(shape):
    made = searched(shape)
    top_k_of_no_rows(made)
    assert operators(made.graph) == ["TopK"]
