import numpy as np

from keras_attn.export._passes import fold_recurrent_weights
from tests.export.small_graphs import (
    BOOL,
    FLOAT,
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

RANDOM = np.random.default_rng(0)
KERNEL = constant("kernel", RANDOM.normal(size=(3, 6)).astype("float32"))
RECURRENT = constant("recurrent", RANDOM.normal(size=(1, 6, 2)).astype("float32"))
AXIS = constant("axis", np.array([0]))
X = RANDOM.normal(size=(4, 2, 3)).astype("float32")
KERNEL_NODES = [
    node("Transpose", "kernel", "turned", perm=[1, 0]),
    node("Unsqueeze", "turned axis", "W"),
]


def gru(x, outputs):
    return node("GRU", f"{x} W recurrent", outputs, hidden_size=2)


def test_a_weight_is_computed_once_for_all_nodes():
    made = model(
        [*KERNEL_NODES, gru("x", "y"), node("Neg", "x", "minus"), gru("minus", "z")],
        [value("x", shape=[4, 2, 3])],
        [value("y", shape=[4, 1, 2, 2]), value("z", shape=[4, 1, 2, 2])],
        [KERNEL, RECURRENT, AXIS],
    )
    expected = run(made, x=X)
    fold_recurrent_weights(made)
    assert operators(made.graph) == ["GRU", "Neg", "GRU"]
    assert {tensor.name for tensor in made.graph.initializer} == {"kernel", "recurrent"}
    for before, after in zip(expected, run(made, x=X), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_weight_that_depends_on_an_input_stays_computed():
    made = model(
        [node("Mul", "kernel scale", "scaled"), node("Unsqueeze", "scaled axis", "W")]
        + [gru("x", "y")],
        [value("x", shape=[4, 2, 3]), value("scale", shape=[1])],
        [value("y", shape=[4, 1, 2, 2])],
        [constant("kernel", np.ones((6, 3), "float32")), RECURRENT, AXIS],
    )
    fold_recurrent_weights(made)
    assert operators(made.graph) == ["Mul", "Unsqueeze", "GRU"]


def test_equal_weights_are_stored_once():
    again = [node("Transpose", "kernel", "turned2", perm=[1, 0])]
    again += [node("Unsqueeze", "turned2 axis", "W2")]
    again += [node("GRU", "x W2 recurrent", "z", hidden_size=2)]
    made = model(
        [*KERNEL_NODES, gru("x", "y"), *again],
        [value("x", shape=[4, 2, 3])],
        [value("y", shape=[4, 1, 2, 2]), value("z", shape=[4, 1, 2, 2])],
        [KERNEL, RECURRENT, AXIS],
    )
    fold_recurrent_weights(made)
    assert [each.input[1] for each in made.graph.node] == ["kernel", "kernel"]
    assert sorted(tensor.name for tensor in made.graph.initializer) == ["kernel", "recurrent"]


def test_other_readers_of_a_weight_keep_it():
    made = model(
        [*KERNEL_NODES, gru("x", "y"), node("MatMul", "x kernel", "z")],
        [value("x", shape=[4, 2, 3])],
        [value("y", shape=[4, 1, 2, 2]), value("z", shape=[4, 2, 6])],
        [KERNEL, RECURRENT, AXIS],
    )
    fold_recurrent_weights(made)
    assert operators(made.graph) == ["GRU", "MatMul"]
    assert {each.name for each in made.graph.initializer} == {"kernel_1", "recurrent", "kernel"}


def test_a_node_inside_a_loop():
    body = graph(
        [node("Identity", "go", "going"), gru("steps", "new"), node("Add", "total new", "sum")],
        [value("i", INT64, []), value("go", BOOL, []), value("total", FLOAT, [4, 1, 2, 2])],
        [value("going", BOOL, []), value("sum", FLOAT, [4, 1, 2, 2])],
        name="body",
    )
    made = model(
        [*KERNEL_NODES, node("Identity", "x", "steps")]
        + [node("Loop", "limit true start", "y", body=body)],
        [value("x", shape=[4, 2, 3])],
        [value("y", shape=[4, 1, 2, 2])],
        [
            *(KERNEL, RECURRENT, AXIS, constant("limit", np.array(3))),
            *(constant("true", np.array(True)), constant("start", np.zeros((4, 1, 2, 2), "f"))),
        ],
    )
    expected = run(made, x=X)
    fold_recurrent_weights(made)
    assert operators(made.graph) == ["Identity", "Loop"]
    assert loop_bodies(made)[0].node[1].input[1] == "kernel"
    np.testing.assert_array_equal(expected[0], run(made, x=X)[0])
