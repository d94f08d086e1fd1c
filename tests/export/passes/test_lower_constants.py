import numpy as np

from keras_attn.export._passes import lower_constants
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

X = np.array([[1, -2], [3, 4]], "float32")
CONSTANTS = {
    "deep": np.array([[2, 0], [1, 1]], "float32"),  # read only by the inner loop
    "turned_deep": np.array([[1, 2], [0, 1]], "float32"),  # read transposed by the inner loop
    "middle": np.array([[0, 1], [1, 0]], "float32"),  # read by the outer loop
    "both": np.array([[1, 1], [0, 1]], "float32"),  # read by the inner loop and the main graph
    "trips": np.array(2),
    "yes": np.array(True),
}


def loop_in_a_loop():
    """Returns a graph with nested loops of two iterations, which multiply by all constants."""
    inner = graph(
        [
            node("Identity", "ci", "ci_out"),
            node("MatMul", "xi deep", "xi_1"),
            node("MatMul", "xi_1 turned", "xi_2"),
            node("MatMul", "xi_2 both", "xi_out"),
        ],
        [value("ii", INT64, []), value("ci", BOOL, []), value("xi")],
        [value("ci_out", BOOL, []), value("xi_out")],
        name="inner",
    )
    outer = graph(
        [
            node("Identity", "co", "co_out"),
            node("Loop", "trips yes xo", "xo_1", body=inner),
            node("MatMul", "xo_1 middle", "xo_out"),
        ],
        [value("io", INT64, []), value("co", BOOL, []), value("xo")],
        [value("co_out", BOOL, []), value("xo_out")],
        name="outer",
    )
    return model(
        [
            node("Add", "turned_deep turned_deep", "twice"),
            node("Transpose", "twice", "turned"),
            node("MatMul", "x both", "x_1"),
            node("Loop", "trips yes x_1", "y", body=outer),
        ],
        [value("x", shape=[None, 2])],
        [value("y", shape=[None, None])],
        [constant(name, array) for name, array in CONSTANTS.items()],
    )


def test_constants_go_down_to_one_level_above_their_reader():
    made = loop_in_a_loop()
    before = run(made, x=X)
    lower_constants(made)
    outer, inner = loop_bodies(made)
    assert {tensor.name for tensor in outer.initializer} == {"deep", "turned_deep"}
    assert operators(outer)[:2] == ["Add", "Transpose"]
    assert operators(made.graph) == ["MatMul", "Loop"]
    assert not inner.initializer
    names = {tensor.name for tensor in made.graph.initializer}
    assert names == CONSTANTS.keys() - {"deep", "turned_deep"}
    np.testing.assert_array_equal(run(made, x=X), before)
