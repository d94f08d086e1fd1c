import numpy as np
import pytest

from keras_attn.export._passes import hoist_invariants
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
WEIGHT = np.array([[2, 0], [1, 1]], "float32")


def body_inputs(prefix, *states):
    return [
        value(f"{prefix}i", INT64, []),
        value(f"{prefix}c", BOOL, []),
        *(value(state) for state in states),
    ]


def one_loop(identities=0, random=False):
    """Returns a body that computes x @ transpose(w) and passes w on through Identity nodes."""
    names = ["w", *(f"copy{index}" for index in range(identities))]
    nodes = [
        node("Identity", "c", "c_out"),
        node("Transpose", "w", "turned"),
        node("MatMul", "x turned", "x_out"),
        *(node("Identity", *pair) for pair in zip(names, names[1:], strict=False)),
    ]
    if random:
        nodes.append(node("RandomNormalLike", "turned", "noise"))
        nodes.append(node("Add", "x_out noise", "noisy"))
    outputs = [value("c_out", BOOL, []), value("noisy" if random else "x_out"), value(names[-1])]
    return graph(nodes, body_inputs("", "x", "w"), outputs, name="body")


def looped(body, results="x_end w_end", states="x_start weight"):
    loop = node("Loop", f"trips yes {states}", results, body=body)
    return model(
        [loop],
        [value("x_start", shape=[None, 2])],
        [value(result, shape=[None, None]) for result in results.split()],
        [constant("weight", WEIGHT), constant("trips", 2), constant("yes", True)],
    )


@pytest.mark.parametrize("identities", [1, 3])
def test_a_carried_weight_is_captured_and_its_transpose_leaves_the_loop(identities):
    made = looped(one_loop(identities))
    before = run(made, x_start=X)
    hoist_invariants(made)
    (body,) = loop_bodies(made)
    assert [each.name for each in body.input] == ["i", "c", "x"]
    assert len(body.output) == 2
    assert "Transpose" not in operators(body) and "MatMul" in operators(body)
    assert operators(made.graph)[0] == "Transpose"
    np.testing.assert_array_equal(before, run(made, x_start=X))
    np.testing.assert_array_equal(before[1], WEIGHT)


def test_a_random_node_stays_although_its_input_is_constant():
    made = looped(one_loop(1, random=True))
    hoist_invariants(made)
    assert "RandomNormalLike" in operators(loop_bodies(made)[0])


def test_a_state_that_changes_places_with_another_stays():
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("Identity", "b", "a_out"),
            node("Identity", "a", "b_out"),
        ],
        body_inputs("", "a", "b"),
        [value("c_out", BOOL, []), value("a_out"), value("b_out")],
        name="body",
    )
    made = looped(body, "a_end b_end")
    before = run(made, x_start=X)
    hoist_invariants(made)
    assert len(loop_bodies(made)[0].input) == 4
    for first, second in zip(before, run(made, x_start=X), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_state_that_takes_an_invariant_value_stays_a_state():
    # It is x_start in the first iteration, and the weight in later iterations.
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("Identity", "w", "x_out"),
            node("Identity", "w", "w_out"),
        ],
        body_inputs("", "x", "w"),
        [value("c_out", BOOL, []), value("x_out"), value("w_out")],
        name="body",
    )
    made = looped(body)
    hoist_invariants(made)
    assert [each.name for each in loop_bodies(made)[0].input] == ["i", "c", "x"]
    np.testing.assert_array_equal(run(made, x_start=X)[0], WEIGHT)


def test_a_weight_behind_an_inner_loop_is_captured_in_both():
    inner = graph(
        [
            node("Identity", "ic", "ic_out"),
            node("Transpose", "iw", "turned"),
            node("MatMul", "ix turned", "ix_out"),
            node("Identity", "iw", "iw_out"),
        ],
        body_inputs("i", "ix", "iw"),
        [value("ic_out", BOOL, []), value("ix_out"), value("iw_out")],
        name="inner",
    )
    outer = graph(
        [
            node("Identity", "oc", "oc_out"),
            node("Loop", "trips yes ox ow", "ox_out ow_out", body=inner),
        ],
        body_inputs("o", "ox", "ow"),
        [value("oc_out", BOOL, []), value("ox_out"), value("ow_out")],
        name="outer",
    )
    made = looped(outer)
    before = run(made, x_start=X)
    hoist_invariants(made)
    for body in loop_bodies(made):
        assert len(body.input) == 3 and "Transpose" not in operators(body)
    assert "Transpose" in operators(made.graph)
    np.testing.assert_allclose(before, run(made, x_start=X))


def test_a_branch_keeps_its_nodes():
    # A value that only one branch needs stays in that branch.
    then = graph([node("Transpose", "weight", "then_out")], [], [value("then_out")], name="then")
    other = graph([node("Identity", "weight", "else_out")], [], [value("else_out")], name="else")
    made = model(
        [node("If", "yes", "y", then_branch=then, else_branch=other)],
        [],
        [value("y", shape=[2, 2])],
        [constant("weight", WEIGHT), constant("yes", True)],
    )
    hoist_invariants(made)
    assert operators(made.graph) == ["If"]
    np.testing.assert_array_equal(run(made)[0], WEIGHT.T)


def test_what_may_fail_stays_in_a_loop_that_may_take_no_step():
    # Adds the third row of table, once for each row of table after the second.
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("Gather", "table third", "row", axis=0),
            node("Neg", "row", "below"),
            node("Sub", "x below", "x_out"),
        ],
        body_inputs("", "x"),
        [value("c_out", BOOL, []), value("x_out")],
        name="body",
    )
    made = model(
        [
            node("Shape", "table", "sizes", end=1),
            node("Sub", "sizes two", "trips"),
            node("Loop", "trips yes x_start", "x_end", body=body),
        ],
        [value("x_start", shape=[2]), value("table", shape=["rows", 2])],
        [value("x_end", shape=[2])],
        [constant("third", 2), constant("two", [2]), constant("yes", True)],
    )
    hoist_invariants(made)
    start = np.zeros(2, "float32")
    for rows in (2, 4):
        table = np.arange(2 * rows, dtype="float32").reshape(rows, 2)
        (received,) = run(made, x_start=start, table=table)
        np.testing.assert_array_equal(received, (rows - 2) * table[2] if rows > 2 else start)


def test_what_is_made_of_sizes_alone_leaves_the_loop():
    # Adds ones, as many as x has columns.
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("Shape", "x_start", "sizes"),
            node("Gather", "sizes last", "columns", axis=0),
            node("Expand", "one columns", "ones"),
            node("Add", "x ones", "x_out"),
        ],
        body_inputs("", "x"),
        [value("c_out", BOOL, []), value("x_out")],
        name="body",
    )
    made = model(
        [node("Loop", "trips yes x_start", "x_end", body=body)],
        [value("x_start", shape=[None, 2])],
        [value("x_end", shape=[None, 2])],
        [
            constant("one", np.float32(1)),
            constant("last", np.array([1])),
            constant("trips", 2),
            constant("yes", True),
        ],
    )
    hoist_invariants(made)
    assert operators(loop_bodies(made)[0]) == ["Identity", "Add"]
    np.testing.assert_array_equal(run(made, x_start=X)[0], X + 2)
