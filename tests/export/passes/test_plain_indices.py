import numpy as np
import pytest

from keras_attn.export._passes import plain_indices
from tests.export.small_graphs import INT64, constant, model, node, operators, run, value

INT32, FLOAT = 6, 1
RNG = np.random.default_rng(0)
DATA = RNG.permutation(24).reshape(2, 12).astype("float32")


def by_the_best(*nodes, outputs, constants=()):
    """Returns a graph that uses the int32 indices of the three largest numbers of each row."""
    return model(
        [
            node("TopK", "data three", "values found"),
            node("Cast", "found", "short", to=INT32),
            *nodes,
        ],
        [value("data", shape=["rows", 12])],
        outputs,
        [constant("three", [3]), *constants],
    )


@pytest.mark.parametrize(("type_", "rest"), [(INT64, []), (FLOAT, ["Cast"])])
def test_what_topk_found_goes_no_way_over_int32(type_, rest):
    made = by_the_best(
        node("Cast", "short", "long", to=type_),
        node("Add", "long long", "doubled"),
        outputs=[value("doubled", type_, ["rows", 3])],
    )
    before = run(made, data=DATA)[0]
    plain_indices(made)
    assert operators(made.graph) == ["TopK", *rest, "Add"]
    np.testing.assert_array_equal(run(made, data=DATA)[0], before)
    np.testing.assert_array_equal(before, 2 * np.argsort(-DATA)[:, :3])


@pytest.mark.parametrize(("operator", "axis"), [("Gather", 0), ("GatherElements", 1)])
def test_a_gather_takes_int32(operator, axis):
    table = np.arange(12, dtype="float32")
    table = np.stack([table, table + 99]) if operator == "GatherElements" else table
    made = by_the_best(
        node("Div", "short two", "halves"),
        node("Cast", "halves", "long", to=INT64),
        node(operator, "table long", "chosen", axis=axis),
        outputs=[value("chosen", shape=["rows", 3])],
        constants=[constant("two", np.int32(2)), constant("table", table)],
    )
    before = run(made, data=DATA)[0]
    plain_indices(made)
    assert operators(made.graph) == ["TopK", "Cast", "Div", operator]
    np.testing.assert_array_equal(run(made, data=DATA)[0], before)


def test_what_would_change_a_number_or_a_type_stays():
    made = model(
        [
            node("Cast", "large", "short", to=INT32),
            node("Cast", "short", "long", to=INT64),  # not from a TopK: values may have changed
            node("Cast", "floats", "whole", to=INT64),
            node("Add", "long whole", "sum"),
            node("Gather", "table sum", "chosen"),
            node("Cast", "ids", "wide", to=INT64),
            node("Add", "wide wide", "doubled"),  # must keep its value
            node("TopK", "floats two", "values found"),
            node("Cast", "values", "cut", to=INT32),  # values, not indices
            node("Cast", "cut", "rounded", to=FLOAT),
            node("Neg", "rounded", "negative"),
        ],
        [value("large", INT64, [2]), value("floats", FLOAT, [2]), value("ids", INT32, [2])],
        [
            value("chosen", shape=[2]),
            value("doubled", INT64, [2]),
            value("negative", FLOAT, [2]),
        ],
        [constant("table", np.arange(9, dtype="float32")), constant("two", [2])],
    )
    inputs = {
        "large": np.array([2**32 + 1, 2]),
        "floats": np.array([1.7, 2.2], "float32"),
        "ids": np.array([2**30, 3], "int32"),
    }
    before, nodes = run(made, **inputs), operators(made.graph)
    plain_indices(made)
    assert operators(made.graph) == nodes
    for received, expected in zip(run(made, **inputs), before, strict=True):
        np.testing.assert_array_equal(received, expected)
