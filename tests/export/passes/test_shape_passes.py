import numpy as np
import pytest

from keras_attn.export._passes import constant_reshapes, remove_tensordot_reshapes, remove_unused
from keras_attn.export._passes.symbolic_shapes import SymbolicShapes
from tests.export.small_graphs import BOOL, INT64, constant, model, node, operators, run, value

X = np.arange(2 * 3 * 4, dtype="float32").reshape(2, 3, 4)
WEIGHTS = np.arange(8, dtype="float32").reshape(4, 2) - 3


def split_heads():
    """Returns a graph that reshapes (B, T, 4) to (B, T, 2, 2) as TensorFlow does."""
    return model(
        [
            node("Shape", "x", "sizes"),
            node("Gather", "sizes first", "batch"),
            node("Slice", "sizes one two zero", "time"),
            node("Concat", "batch time heads", "wanted", axis=0),
            node("Reshape", "x wanted", "y", allowzero=1),
        ],
        [value("x", shape=["batch", "time", 4])],
        [value("y", shape=[None] * 4)],
        [
            constant("first", np.array([0])),
            constant("zero", np.array([0])),
            constant("one", np.array([1])),
            constant("two", np.array([2])),
            constant("heads", np.array([2, 2])),
        ],
    )


def tensordot():
    """Returns a graph that computes x W by reshaping x to a matrix, as TensorFlow does."""
    return model(
        [
            node("Shape", "x", "sizes"),
            node("Gather", "sizes outer", "rows"),
            node("ReduceProd", "rows", "count", keepdims=1),
            node("Concat", "count four", "flat_shape", axis=0),
            node("Reshape", "x flat_shape", "flat"),
            node("MatMul", "flat weights", "product"),
            node("Concat", "rows columns", "wanted", axis=0),
            node("Reshape", "product wanted", "y"),
        ],
        [value("x", shape=["batch", "time", 4])],
        [value("y", shape=[None] * 3)],
        [
            constant("outer", np.array([0, 1])),
            constant("four", np.array([4])),
            constant("columns", np.array([2])),
            constant("weights", WEIGHTS),
        ],
    )


def test_a_shape_made_of_the_sizes_of_the_input_becomes_a_constant():
    made = split_heads()
    before = run(made, x=X)[0]
    constant_reshapes(made)
    remove_unused(made)
    assert operators(made.graph) == ["Reshape"]
    np.testing.assert_array_equal(run(made, x=X)[0], before)
    for empty in (X[:0], X[:, :0]):
        assert run(made, x=empty)[0].shape == (*empty.shape[:2], 2, 2)


def test_a_shape_with_two_unknown_sizes_stays():
    made = model(
        [node("Reshape", "x wanted", "y", allowzero=1)],
        [value("x", shape=["batch", "time", 4]), value("wanted", INT64, [2])],
        [value("y", shape=[None] * 2)],
    )
    constant_reshapes(made)
    wanted = np.array([6, 4])
    np.testing.assert_array_equal(run(made, x=X, wanted=wanted)[0], X.reshape(6, 4))


def test_a_size_that_was_made_something_else_is_not_that_size():
    # 1 if there are rows, not their number.
    made = model(
        [
            node("Shape", "x", "sizes"),
            node("Gather", "sizes first", "rows"),
            node("Cast", "rows", "any", to=BOOL),
            node("Cast", "any", "one", to=INT64),
            node("Concat", "one rest", "wanted", axis=0),
            node("Reshape", "x wanted", "y"),
        ],
        [value("x", shape=["batch", "time", 4])],
        [value("y", shape=[None] * 2)],
        [constant("first", np.array([0])), constant("rest", np.array([-1]))],
    )
    constant_reshapes(made)
    assert run(made, x=X)[0].shape == (1, 24)


def test_a_size_may_become_more_than_a_vector():
    made = model(
        [
            node("Shape", "x", "sizes"),
            node("Gather", "sizes second", "size"),
            node("Unsqueeze", "size axes", "matrix"),
        ],
        [value("x", shape=["batch", "time"])],
        [value("matrix", INT64, [1, 1])],
        [constant("second", np.array(1)), constant("axes", np.array([0, 1]))],
    )
    assert SymbolicShapes(made).shapes["matrix"] == (1, 1)


def test_a_name_of_the_model_is_not_taken_for_a_shape():
    made = split_heads()
    made.graph.initializer.append(constant("shape_0_0_2_2", np.float32(3)))
    constant_reshapes(made)
    np.testing.assert_array_equal(run(made, x=X)[0], X.reshape(2, 3, 2, 2))


def test_a_product_by_way_of_a_matrix_becomes_one_product():
    made = tensordot()
    before = run(made, x=X)[0]
    remove_tensordot_reshapes(made)
    remove_unused(made)
    assert operators(made.graph) == ["MatMul"]
    np.testing.assert_allclose(run(made, x=X)[0], before)
    np.testing.assert_allclose(before, X @ WEIGHTS)


def test_a_product_that_is_reshaped_to_something_else_stays():
    made = model(
        [
            node("Reshape", "x flat_shape", "flat"),
            node("MatMul", "flat weights", "product"),
            node("Reshape", "product wanted", "y"),
        ],
        [value("x", shape=[2, 3, 4])],
        [value("y", shape=[None] * 3)],
        [
            constant("flat_shape", np.array([6, 4])),
            constant("wanted", np.array([3, 2, 2])),
            constant("weights", WEIGHTS),
        ],
    )
    remove_tensordot_reshapes(made)
    assert operators(made.graph) == ["Reshape", "MatMul", "Reshape"]


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "shape"),
    [
        ("Transpose", "x", {"perm": [1, 0, 2]}, ("time", "batch", 4)),
        ("Add", "x row", {}, ("batch", "time", 4)),
        ("MatMul", "x weights", {}, ("batch", "time", 2)),
        ("Concat", "x x", {"axis": -1}, ("batch", "time", 8)),
        ("ReduceMean", "x last", {"keepdims": 0}, ("batch", "time")),
        ("Unsqueeze", "x last", {}, ("batch", "time", 4, 1)),
        ("Gather", "x last", {"axis": 1}, ("batch", 1, 4)),
        ("Slice", "x zero two last", {}, ("batch", "time", 2)),
    ],
)
def test_shapes_are_known_as_far_as_they_can_be(operator, inputs, attributes, shape):
    made = model(
        [node(operator, inputs, "y", **attributes)],
        [value("x", shape=["batch", "time", 4])],
        [value("y", shape=[None] * len(shape))],
        [
            constant("row", np.ones(4, "float32")),
            constant("weights", WEIGHTS),
            constant("last", np.array([-1])),
            constant("zero", np.array([0])),
            constant("two", np.array([2])),
        ],
    )
    known = SymbolicShapes(made)
    names = dict(zip(known.shapes["x"], ("batch", "time", 4), strict=True))
    assert tuple(names.get(size, size) for size in known.shapes["y"]) == shape
    assert run(made, x=X)[0].shape == tuple({"batch": 2, "time": 3}.get(s, s) for s in shape)
