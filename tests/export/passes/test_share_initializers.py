import numpy as np

from keras_attn.export._passes import share_initializers
from keras_attn.export._passes.graph import nested_graphs
from tests.export.small_graphs import BOOL, INT64, constant, graph, model, node, run, value

ONES = np.ones(2, "float32")


def test_equal_constants_become_one_and_others_stay():
    made = model(
        [
            node("Add", "x a", "first"),
            node("Add", "first b", "second"),
            node("Constant", "", "c", value=constant("c", ONES)),
            node("Add", "second c", "third"),
            node("Reshape", "third flat", "fourth"),
            node("Add", "fourth other_shape", "y"),
        ],
        [value("x", shape=[2])],
        [value("y", shape=[1, 2])],
        [
            constant("a", ONES),
            constant("b", ONES.copy()),
            constant("other_shape", ONES[None]),
            constant("flat", np.array([-1])),
        ],
    )
    before = run(made, x=ONES)[0]
    share_initializers(made)
    assert [each.name for each in made.graph.initializer] == ["a", "other_shape", "flat"]
    np.testing.assert_array_equal(before, run(made, x=ONES)[0])


def test_equal_bytes_of_another_type_are_another_constant():
    made = model(
        [node("Cast", "i", "cast", to=1), node("Add", "cast f", "y")],
        [],
        [value("y", shape=[2])],
        [constant("i", np.zeros(2, "int32")), constant("f", np.zeros(2, "float32"))],
    )
    share_initializers(made)
    assert len(made.graph.initializer) == 2


def test_constants_of_a_loop_body_move_out_also_if_it_returns_them():
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("Constant", "", "returned", value=constant("returned", ONES)),
        ],
        [value("i", INT64, []), value("c", BOOL, []), value("x")],
        [value("c_out", BOOL, []), value("returned")],
        [constant("unused", ONES)],
        name="body",
    )
    made = model(
        [node("Loop", "trips yes x", "y", body=body)],
        [value("x", shape=[2])],
        [value("y", shape=[2])],
        [constant("trips", 2), constant("yes", True)],
    )
    share_initializers(made)
    _, inner = nested_graphs(made.graph)
    assert not inner.initializer
    assert len(made.graph.initializer) == 3
    np.testing.assert_array_equal(run(made, x=0 * ONES)[0], ONES)


def test_an_initializer_that_is_an_output_keeps_its_name():
    made = model(
        [node("Add", "x a", "y")],
        [value("x", shape=[2])],
        [value("y", shape=[2]), value("b", shape=[2])],
        [constant("a", ONES), constant("b", ONES)],
    )
    share_initializers(made)
    assert {each.name for each in made.graph.initializer} == {"a", "b"}
