"""Models that the conversion rejects, and bugs of tf2onnx. Tests fail if tf2onnx fixes them."""

import contextlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.export import ExportError
from keras_attn.export._checks.onnx_operator_check import ALLOWED_OPERATORS, check_model
from keras_attn.export._passes.graph import nested_graphs
from tests.export.conversion_steps import convert

X = tf.TensorSpec((None, 3), tf.float32, name="x")
ARRAY = np.arange(6, dtype="float32").reshape(2, 3) - 2


def run(model, *arrays):
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    outputs = session.run(None, dict(zip(names, arrays, strict=True)))
    return dict(zip([each.name for each in session.get_outputs()], outputs, strict=True))


def test_weights_become_initializers_of_their_name():
    layer = keras.layers.Dense(4, name="projection")
    layer.build((None, 3))
    model = convert(lambda x: {"second": layer(x) * 2, "first": layer(x)}, [X], layer.weights)
    assert {"projection/kernel"} <= {each.name for each in model.graph.initializer}
    assert [each.name for each in model.graph.input] == ["x"]
    outputs = run(model, ARRAY)
    assert list(outputs) == ["second", "first"]
    np.testing.assert_allclose(outputs["first"], layer(ARRAY), rtol=1e-6)
    np.testing.assert_allclose(outputs["second"], 2 * layer(ARRAY), rtol=1e-6)


def test_a_weight_may_be_used_inside_a_loop():
    layer = keras.layers.Dense(3)
    layer.build((None, 3))

    def function(x):
        return {"y": ops.while_loop(lambda _: True, lambda y: (layer(y),), (x,), 4)[0]}

    expected = ARRAY
    for _ in range(4):
        expected = layer(expected)
    model = convert(function, [X], layer.weights)
    np.testing.assert_allclose(run(model, ARRAY)["y"], expected, rtol=1e-5)


def test_the_walk_for_all_outputs_keeps_the_nodes_that_tf2onnx_keeps(monkeypatch):
    layer = keras.layers.Dense(3)
    layer.build((None, 3))

    def function(x):
        def body(y, z, unused):
            return layer(y), z + y, unused * 2

        y, z, _ = ops.while_loop(lambda *_: True, body, (x, x, x), maximum_iterations=4)
        return {"y": ops.relu(y), "z": z}

    ours = convert(function, [X], layer.weights)
    module = sys.modules["keras_attn.export._trace.conversion"]
    monkeypatch.setattr(module, "one_walk_for_all_outputs", contextlib.nullcontext)
    theirs = convert(function, [X], layer.weights)
    operators = [
        [sorted(node.op_type for node in graph.node) for graph in nested_graphs(model.graph)]
        for model in (ours, theirs)
    ]
    assert operators[0] == operators[1] and len(operators[0]) == 2


def test_an_output_named_like_an_input_is_refused():
    with pytest.raises(ExportError, match="named differently"):
        convert(lambda x: {"x": x + 1}, [X], [])


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_division_rounds_down(dtype):
    """tf2onnx itself rounds integer divisions towards zero."""
    x = np.arange(-7, 8).astype(dtype)
    spec = tf.TensorSpec((None,), dtype, name="x")
    for divisor in (3, -3):
        model = convert(lambda x, by=divisor: {"quotient": x // by, "rest": x % by}, [spec], [])
        check_model(model)
        found = run(model, x)
        np.testing.assert_array_equal(found["quotient"], x // divisor)
        np.testing.assert_array_equal(found["rest"], x % divisor)


def test_a_tensor_from_outside_becomes_a_constant():
    outside = tf.constant(np.arange(400, dtype="float32"))
    model = convert(lambda x: {"y": x[:, :1] * outside}, [X], [])
    np.testing.assert_array_equal(run(model, ARRAY)["y"], ARRAY[:, :1] * np.arange(400))


def test_a_variable_that_is_not_among_the_weights_is_refused():
    variable = keras.Variable(np.ones(3, "float32"), name="forgotten")
    with pytest.raises(ExportError, match="weights of a layer"):
        convert(lambda x: {"y": x + variable}, [X], [])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.random.stateless_uniform(tf.shape(x), (1, 2)),
        lambda x: tf.bitcast(x, tf.int32),
    ],
    ids=["stateless random", "bitcast"],
)
def test_what_tf2onnx_only_logs_is_an_error(function):
    """If this fails, tf2onnx supports the operator now."""
    with pytest.raises(ExportError, match="tf2onnx could not convert"):
        convert(lambda x: {"y": function(x)}, [X], [])


def test_an_operator_that_is_not_allowed_is_refused():
    model = convert(lambda x: {"y": tf.nn.relu(x)}, [X], [])
    model.graph.node[0].op_type = "Einsum"
    with pytest.raises(ExportError, match="ai.onnx:Einsum"):
        check_model(model)
    assert "Einsum" not in ALLOWED_OPERATORS


def test_an_einsum_in_a_loop_is_written_as_products():
    def function(x):
        (y,) = ops.while_loop(
            lambda y: ops.sum(y) < 100.0, lambda y: (tf.einsum("ij,jk->ik", y, y) + 1.0,), (x,)
        )
        return {"y": y}

    model = convert(function, [tf.TensorSpec((3, 3), tf.float32, name="x")], [])
    check_model(model)


def test_an_invalid_model_is_refused():
    model = convert(lambda x: {"y": tf.nn.relu(x)}, [X], [])
    check_model(model)
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(ExportError, match="onnx.checker refuses"):
        check_model(model)


def test_tensor_arrays_are_still_written_at_the_loop_counter():
    """A silent bug of tf2onnx, which searches avoid with tensors as loop state.

    If this fails, the bug is fixed.
    """

    def function(x):
        array = tf.TensorArray(tf.float32, 3, element_shape=(None,))
        _, array = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, array: (i + 1, array.write(2 - i, x[:, 0] + tf.cast(i, tf.float32))),
            (0, array),
        )
        return {"y": array.stack()}

    expected = function(tf.constant(ARRAY))["y"]
    actual = run(convert(function, [X], []), ARRAY)["y"]
    np.testing.assert_array_equal(actual, expected[::-1])
    assert np.abs(actual - expected).max() > 0


def test_where_with_an_infinity_that_is_not_selected():
    """tf2onnx itself writes products, in which the infinity becomes NaN."""

    def function(mask, x):
        return {"y": tf.where(mask, tf.zeros_like(x), x), "z": tf.where(mask[:, :1], x, -np.inf)}

    mask, array = np.array([[False, True, False]]), np.array([[1, np.inf, 2]], "float32")
    mask_spec = tf.TensorSpec((None, 3), tf.bool, name="mask")
    found = run(convert(function, [mask_spec, X], []), mask, array)
    np.testing.assert_array_equal(found["y"], [[1, 0, 2]])
    np.testing.assert_array_equal(found["z"], [[-np.inf] * 3])
