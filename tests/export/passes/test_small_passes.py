import numpy as np
import pytest
from onnx import helper

from keras_attn.export._passes import (
    make_names_unique,
    name_dimensions,
    remove_identities,
    remove_unused,
    set_allowzero,
    slice_empty_gathers,
)
from keras_attn.export._passes.graph import defined_names, nested_graphs
from tests.export.small_graphs import (
    BOOL,
    INT64,
    constant,
    graph,
    model,
    node,
    operators,
    run,
    value,
)

X = np.array([1, 2], "float32")


def twice_the_same_body():
    def body():
        return graph(
            [node("Identity", "c", "c_out"), node("Add", "x one", "x_out")],
            [value("i", INT64, []), value("c", BOOL, []), value("x")],
            [value("c_out", BOOL, []), value("x_out")],
            name="body",
        )

    return model(
        [
            node("Loop", "trips yes start", "middle", body=body()),
            node("Loop", "trips yes middle", "x_end", body=body()),
        ],
        [value("start", shape=[2])],
        [value("x_end", shape=[2])],
        [constant("trips", 3), constant("yes", True), constant("one", np.ones(2, "float32"))],
    )


def test_names_become_unique_and_those_of_the_main_graph_stay():
    made = twice_the_same_body()
    main = defined_names(made.graph)
    make_names_unique(made)
    names = [name for each in nested_graphs(made.graph) for name in defined_names(each)]
    assert len(names) == len(set(names))
    assert defined_names(made.graph) == main
    np.testing.assert_array_equal(run(made, start=X)[0], X + 6)


def test_identities_vanish_but_for_those_that_make_an_output():
    made = model(
        [
            node("Identity", "x", "a"),
            node("Identity", "a", "b"),
            node("Neg", "b", "c"),
            node("Identity", "c", "d"),
            node("Identity", "d", "y"),
        ],
        [value("x", shape=[2])],
        [value("y", shape=[2])],
    )
    remove_identities(made)
    assert operators(made.graph) == ["Neg", "Identity"]
    np.testing.assert_array_equal(run(made, x=X)[0], -X)


def test_a_slice_of_everything_vanishes_and_other_slices_stay():
    cuts = {"all": (0, 2**31 - 1, 1), "later": (1, 2**31 - 1, 1), "first": (0, 2, 1)}
    cuts["every second"] = (0, 2**31 - 1, 2)
    for name, numbers in cuts.items():
        made = model(
            [node("Slice", "x start end axis step", "cut"), node("Neg", "cut", "y")],
            [value("x", shape=[None])],
            [value("y", shape=[None])],
            [
                constant(each, np.array([number]))
                for each, number in zip(("start", "end", "step"), numbers, strict=True)
            ]
            + [constant("axis", np.array([0]))],
        )
        before = run(made, x=np.arange(5, dtype="float32"))
        remove_identities(made)
        assert ("Slice" in operators(made.graph)) == (name != "all")
        np.testing.assert_array_equal(run(made, x=np.arange(5, dtype="float32")), before)


def test_a_slice_with_steps_and_no_axes_stays():
    made = model(
        [helper.make_node("Slice", ["x", "start", "end", "", "step"], ["cut"])]
        + [node("Neg", "cut", "y")],
        [value("x", shape=[None])],
        [value("y", shape=[None])],
        [
            constant(name, np.array([number]))
            for name, number in {"start": 0, "end": 2**31 - 1, "step": 2}.items()
        ],
    )
    remove_identities(made)
    assert operators(made.graph) == ["Slice", "Neg"]


def test_identities_that_a_loop_body_captures_vanish_too():
    made = twice_the_same_body()
    made.graph.node.insert(0, node("Identity", "one", "one_too"))
    for each in nested_graphs(made.graph):
        for inner in each.node:
            if inner.op_type == "Add":
                inner.input[1] = "one_too"
    make_names_unique(made)
    remove_identities(made)
    assert operators(made.graph) == ["Loop", "Loop"]
    np.testing.assert_array_equal(run(made, start=X)[0], X + 6)


def test_what_nobody_reads_is_removed():
    made = twice_the_same_body()
    made.graph.node.insert(0, node("Neg", "start", "unread"))
    made.graph.node.insert(1, node("Neg", "unread", "unread_too"))
    made.graph.initializer.append(constant("unread_constant", X))
    remove_unused(made)
    assert operators(made.graph) == ["Loop", "Loop"]
    assert {each.name for each in made.graph.initializer} == {"trips", "yes", "one"}
    np.testing.assert_array_equal(run(made, start=X)[0], X + 6)


def reshaped(shape=None):
    """Returns a graph that reshapes x to the shape of `like` or to a constant shape."""
    initializers = [] if shape is None else [constant("shape", np.array(shape))]
    nodes = [node("Shape", "like", "shape")] if shape is None else []
    return model(
        [*nodes, node("Reshape", "x shape", "y")],
        [value("x", shape=[None, None, None]), value("like", shape=[None, None])],
        [value("y", shape=[None, None])],
        initializers,
    )


def test_reshape_makes_dimensions_of_size_zero():
    made = reshaped()
    set_allowzero(made)
    for like in (np.zeros((4, 0), "float32"), np.zeros((0, 4), "float32")):
        empty = np.zeros((1, 4, 0), "float32")
        assert run(made, x=empty, like=like)[0].shape == like.shape
    like = np.zeros((2, 6), "float32")
    assert run(made, x=np.zeros((3, 2, 2), "float32"), like=like)[0].shape == (2, 6)


def test_without_the_pass_a_zero_still_means_as_in_the_input():
    with pytest.raises(Exception, match="cannot be reshaped"):
        run(reshaped(), x=np.zeros((1, 4, 0), "float32"), like=np.zeros((4, 0), "float32"))


def test_a_constant_shape_with_a_zero_keeps_its_meaning():
    made = reshaped([0, -1])
    set_allowzero(made)
    like = np.zeros((1, 1), "float32")
    assert run(made, x=np.zeros((3, 2, 5), "float32"), like=like)[0].shape == (3, 10)


def test_dimensions_get_their_names():
    made = model(
        [node("Unsqueeze", "x axis", "row"), node("Add", "row scalar", "y")],
        [value("x", shape=["unk__1"]), value("scalar", shape=[])],
        [value("y", shape=["unk__2", "unk__3"])],
        [constant("axis", np.array([0]))],
    )
    name_dimensions(made, {"x": ("length",), "scalar": (), "y": (1, "length")})
    shapes = {
        each.name: [axis.dim_param or axis.dim_value for axis in each.type.tensor_type.shape.dim]
        for each in [*made.graph.input, *made.graph.output]
    }
    assert shapes == {"x": ["length"], "scalar": [], "y": [1, "length"]}
    np.testing.assert_array_equal(run(made, x=X, scalar=X[0:1].reshape(()))[0], [X + 1])


@pytest.mark.parametrize("dimensions", [{"x": ("a",)}, {"x": ("a", "b"), "y": ("a",)}])
def test_dimensions_that_do_not_fit_are_refused(dimensions):
    made = model([node("Neg", "x", "y")], [value("x", shape=[2])], [value("y", shape=[2])])
    with pytest.raises(ValueError, match="Expected the dimensions of"):
        name_dimensions(made, dimensions)


@pytest.mark.parametrize("axis", [None, 1, -1])
def test_empty_gathers_become_slices(axis):
    attributes = {} if axis is None else {"axis": axis}
    made = model(
        [
            node("Gather", "x nothing", "y", **attributes),
            node("Gather", "x first", "z", **attributes),
        ],
        [value("x", shape=[2, 3])],
        [value("y", shape=["rows", "columns"]), value("z", shape=["rows", "columns"])],
        [constant("nothing", np.zeros(0, "int64")), constant("first", np.array([0], "int64"))],
    )
    data = np.arange(6, dtype="float32").reshape(2, 3)
    expected = run(made, x=data)
    slice_empty_gathers(made)
    assert [each.op_type for each in made.graph.node] == ["Slice", "Gather"]
    received = run(made, x=data)
    assert received[0].shape == expected[0].shape == ((0, 3) if axis is None else (2, 0))
    np.testing.assert_array_equal(received[1], expected[1])
