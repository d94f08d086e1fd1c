import numpy as np
import pytest

from keras_attn.export._passes import plain_gather
from tests.export.small_graphs import INT64, constant, model, node, operators, run, value

TABLE = np.arange(12, dtype="float32").reshape(4, 3)


def wrapped_gather(size=4):
    return model(
        [
            node("Cast", "ids", "floats", to=1),
            node("Less", "floats zero", "negative"),
            node("Add", "ids size", "from_the_end"),
            node("Where", "negative from_the_end ids", "indices"),
            node("Gather", "table indices", "rows"),
        ],
        [value("ids", INT64, [None])],
        [value("rows", shape=[None, 3])],
        [constant("zero", np.float32(0)), constant("size", size), constant("table", TABLE)],
    )


def test_gather_counts_from_the_end_by_itself():
    made, ids = wrapped_gather(), np.array([0, -1, 3, -4, 2])
    plain_gather(made)
    assert made.graph.node[-1].input[1] == "ids"
    np.testing.assert_array_equal(run(made, ids=ids)[0], TABLE[ids])


@pytest.mark.parametrize("size", [1, 3])
def test_another_sum_is_no_count_from_the_end(size):
    made = wrapped_gather(size)
    plain_gather(made)
    assert made.graph.node[-1].input[1] == "indices"
    assert operators(made.graph)[-2:] == ["Where", "Gather"]
