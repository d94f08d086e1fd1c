import numpy as np
import pytest
from onnx import TensorProto

from keras_attn.export._passes import int4_weights, int8_weights, int8_weights_of_rows
from keras_attn.export._passes.int8_embeddings import MIN_SIZE, int8_embeddings
from tests.export.small_graphs import (
    INT64,
    all_initializers,
    constant,
    graph,
    model,
    node,
    operators,
    run,
    value,
)

RNG = np.random.default_rng(0)
WIDTH = 32
ROWS = MIN_SIZE // WIDTH
TABLE = RNG.normal(size=(ROWS, WIDTH)).astype("float32") * RNG.uniform(0.1, 10, (ROWS, 1)).astype(
    "f"
)
FLOATS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
IDS = RNG.integers(0, ROWS, (3, 5))


def in_8_bits(table, largest=127):
    """Rounds a table to 8 bits, one row at a time."""
    rounded = np.empty_like(table)
    for row, values in enumerate(table):
        step = np.abs(values).max() / largest
        rounded[row] = np.rint(values / step) * step if step else 0
    return rounded


def lookup(table=TABLE, axis=0):
    return model(
        [node("Gather", "table ids", "y", axis=axis)],
        [value("ids", INT64, [None, None])],
        [value("y", FLOATS[table.dtype.name], [None, None, None])],
        [constant("table", table)],
    )


def tied():
    """Returns a graph that looks up rows of a table, and multiplies them by the table in a loop."""
    body = graph(
        [
            node("Identity", "c", "c_out"),
            node("Transpose", "table", "turned", perm=[1, 0]),
            node("MatMul", "h turned", "logits"),
            node("ArgMax", "logits", "best", axis=-1, keepdims=0),
            node("Gather", "table best", "h_out"),
        ],
        [value("i", INT64, []), value("c", TensorProto.BOOL, []), value("h")],
        [value("c_out", TensorProto.BOOL, []), value("h_out"), value("logits")],
        name="body",
    )
    return model(
        [node("Gather", "table ids", "x"), node("Loop", "trips yes x", "y logits_of", body=body)],
        [value("ids", INT64, [None])],
        [value("y", shape=[None, WIDTH]), value("logits_of", shape=[None, None, ROWS])],
        [constant("table", TABLE), constant("trips", 1), constant("yes", True)],
    )


def matrices(made):
    """Returns the types and shapes of all constant matrices."""
    return sorted(
        (each.data_type, *each.dims) for each in all_initializers(made) if len(each.dims) > 1
    )


def test_int8_embeddings_round_each_row():
    made = lookup()
    int8_embeddings(made)
    assert matrices(made) == [(TensorProto.INT8, ROWS, WIDTH)]
    np.testing.assert_allclose(run(made, ids=IDS)[0], in_8_bits(TABLE)[IDS], rtol=1e-6)


def test_int8_embeddings_keep_rows_of_zeros():
    table = TABLE.copy()
    table[7] = 0
    made = lookup(table)
    int8_embeddings(made)
    assert not run(made, ids=np.array([[7]]))[0].any()


@pytest.mark.parametrize("table, axis", [(TABLE[:-1], 0), (TABLE, 1), (TABLE.astype("float64"), 0)])
def test_int8_embeddings_keep_small_tables_and_other_lookups(table, axis):
    made = lookup(table, axis)
    int8_embeddings(made)
    assert operators(made.graph) == ["Gather"]
    ids = IDS % WIDTH
    np.testing.assert_array_equal(run(made, ids=ids)[0], np.take(table, ids, axis))


@pytest.mark.parametrize("change", [int8_weights, int8_weights_of_rows])
def test_int8_weights_store_a_tied_table_once(change):
    made = tied()
    change(made)
    assert matrices(made) == [(TensorProto.INT8, ROWS, WIDTH)]
    ids = np.arange(9)
    found, logits = run(made, ids=ids)
    rounded = in_8_bits(TABLE, 64)
    np.testing.assert_allclose(logits[0], rounded[ids] @ rounded.T, rtol=0.01, atol=20)  # of 1,500
    np.testing.assert_allclose(found, rounded[logits[0].argmax(-1)], rtol=1e-6)


def test_int8_weights_store_a_table_with_its_product_of_rows():
    """A table that is also a weight without transposition has other scales there."""
    made = model(
        [node("Gather", "table ids", "x"), node("MatMul", "z table", "y")],
        [value("ids", INT64, [None]), value("z", shape=[None, ROWS])],
        [value("x", shape=[None, WIDTH]), value("y", shape=[None, WIDTH])],
        [constant("table", TABLE)],
    )
    int8_weights(made)
    z = np.eye(ROWS, dtype="float32")[:4]
    x, y = run(made, ids=np.arange(4), z=z)
    np.testing.assert_allclose(x, in_8_bits(TABLE)[:4], rtol=1e-6)
    np.testing.assert_allclose(y, in_8_bits(TABLE.T, 64).T[:4], rtol=1e-3, atol=1e-3)


def test_int4_weights_store_tables_in_8_bits():
    made = tied()
    int4_weights(made)
    kinds = {each[0] for each in matrices(made)}
    assert kinds == {TensorProto.INT8, TensorProto.INT4, TensorProto.FLOAT}
    floats = [each for each in matrices(made) if each[0] == TensorProto.FLOAT]
    assert floats == [(TensorProto.FLOAT, WIDTH // 32, ROWS)]  # scales of the blocks
    found, logits = run(made, ids=np.arange(9))
    np.testing.assert_allclose(found, in_8_bits(TABLE)[logits[0].argmax(-1)], rtol=1e-6)
