"""Checks of biases that are called with the positions of queries and keys."""

import keras
import numpy as np

from tests.contracts import assert_close, numpy

QUERY_POSITIONS = np.array([[3, 4, 5], [0, 1, 2]], "int32")
KEY_POSITIONS = np.array([[0, 1, 2, 3, 4, 5], [7, 0, 60, 2, 900, 1]], "int32")


def check_batches(layer, expected):
    """Checks positions that differ for each row, and positions shared by all rows.

    Args:
        layer: The layer, already built.
        expected: Function from positions `(T,)` and `(S,)` to biases `(H, T, S)`.
    """
    for queries, keys in (
        (QUERY_POSITIONS, KEY_POSITIONS),
        (QUERY_POSITIONS[:1], KEY_POSITIONS),
        (QUERY_POSITIONS, KEY_POSITIONS[1:]),
        (QUERY_POSITIONS[:1, :1], KEY_POSITIONS[:1]),
    ):
        rows = max(len(queries), len(keys))
        each = zip(
            queries.repeat(rows // len(queries), 0), keys.repeat(rows // len(keys), 0), strict=True
        )
        expected_rows = np.array([expected(*row) for row in each])
        assert_close(numpy(layer(queries, keys)), expected_rows)


def functional_model(layer):
    queries = keras.Input((None,), dtype="int32", name="query_positions")
    keys = keras.Input((None,), dtype="int32", name="key_positions")
    bias = layer(queries, keys)
    assert bias.shape == (None, layer.num_heads, None, None)
    return keras.Model([queries, keys], keras.layers.Identity(name="bias")(bias))


def check_compiled(layer):
    """Checks that a compiled model with unknown sizes returns the results of the layer."""
    positions = [QUERY_POSITIONS, KEY_POSITIONS]
    received = functional_model(layer).predict(positions, verbose=0)
    assert_close(received, numpy(layer(*positions)), 1e-6)


def check_export(layer, path):
    """Checks that an ONNX file returns the results of the layer.

    Returns:
        Sorted types of its operators.
    """
    import onnx

    from keras_attn.export import export_functional_onnx

    positions = [QUERY_POSITIONS, KEY_POSITIONS]
    assert (
        export_functional_onnx(functional_model(layer), path, positions).largest_difference < 1e-6
    )
    return sorted(node.op_type for node in onnx.load(path).graph.node)
