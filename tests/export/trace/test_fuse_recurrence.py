"""LSTM and GRU layers become ONNX operators with the results of Keras."""

import functools
from collections import Counter

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras import ops
from keras.layers import GRU, LSTM, RNN, Bidirectional, GRUCell, LSTMCell

from keras_attn.export import ExportError, export_functional_onnx, export_onnx
from keras_attn.export._checks.onnx_operator_check import check_model
from keras_attn.export._passes import PASSES
from keras_attn.export._passes.graph import copy_of, nested_graphs
from keras_attn.export._passes.value_types import value_types
from keras_attn.export._trace.fuse_recurrence import fuse_recurrence
from keras_attn.export._trace.portable_copy import portable_copy
from tests.export.conversion_steps import convert
from tests.export.small_graphs import run
from tests.export.small_translator import make_translator, session
from tests.slow_cases import all_slow_but

UNITS, FEATURES = 4, 3
INPUTS = tf.TensorSpec((None, None, FEATURES), tf.float32, name="x")
MASK = tf.TensorSpec((None, None), tf.bool, name="mask")
PADDED = [
    [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]],
    [[1, 1, 0, 0], [1, 1, 1, 0]],
    [[1, 1, 1], [0, 0, 0]],
    [[1, 1, 1, 1, 1]],
    [[1]],
]
WITH_HOLES = [
    [[1, 0, 1, 0, 1], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
    [[0, 1, 1]],
    [[0], [1]],
]


def convert_fused(function, signature, layer):
    """Converts a function with the argument `layer`, and fuses this layer."""
    (copied,) = portable_copy(layer, keep_precision=True)
    fuse_recurrence(copied)
    return convert(functools.partial(function, layer=copied), signature, layer.weights)


def exported(layer, masked=True, num_states=0, training=False):
    """Returns a layer as an ONNX model, and the function it was converted from."""
    layer.build((None, None, FEATURES))
    random = np.random.default_rng(0)
    for weight in layer.weights:
        weight.assign(random.normal(size=weight.shape, scale=0.7))

    def function(x, *others, layer=layer):
        others = list(others)
        mask = others.pop(0) if masked else None
        results = layer(x, mask=mask, initial_state=others or None, training=training)
        return {f"y{index}": value for index, value in enumerate(keras.tree.flatten(results))}

    states = [
        tf.TensorSpec((None, UNITS), tf.float32, name=f"state{index}")
        for index in range(num_states)
    ]
    signature = [INPUTS, *([MASK] if masked else []), *states]
    model = convert_fused(function, signature, layer)
    for change in PASSES:
        change(model)
    check_model(model)
    return model, function


def operators(model):
    return Counter(node.op_type for graph in nested_graphs(model.graph) for node in graph.node)


def check_parity(model, function, masks, num_states=0):
    random = np.random.default_rng(1)
    for mask in masks:
        mask = np.array(mask, "bool")
        arrays = {"x": random.normal(size=(*mask.shape, FEATURES)).astype("float32")}
        if "mask" in [value.name for value in model.graph.input]:
            arrays["mask"] = mask
        for index in range(num_states):
            arrays[f"state{index}"] = random.normal(size=(len(mask), UNITS)).astype("float32")
        expected = function(*map(tf.constant, arrays.values()))
        for value, actual in zip(expected.values(), run(model, **arrays), strict=True):
            assert value.shape == actual.shape
            np.testing.assert_allclose(actual, value, atol=2e-6)


LAYERS = {
    "the last output": {},
    "all outputs": {"return_sequences": True},
    "last output and state": {"return_state": True},
    "all outputs and state": {"return_sequences": True, "return_state": True},
    "backwards": {"go_backwards": True, "return_state": True},
    "all backwards": {"go_backwards": True, "return_sequences": True, "return_state": True},
    "zeros": {"return_sequences": True, "zero_output_for_mask": True},
    "the last, maybe zero": {"zero_output_for_mask": True},
    "no bias": {"use_bias": False, "return_sequences": True},
}
FAST = ["the last output", "all backwards", "zeros", "the last, maybe zero"]


@pytest.mark.parametrize("name", all_slow_but(*FAST, cases=LAYERS))
@pytest.mark.parametrize(
    "kind", all_slow_but("LSTM", "GRU", cases=["LSTM", "GRU", "GRU, reset before"])
)
def test_a_layer_is_one_operator_that_equals_keras(kind, name):
    arguments = LAYERS[name]
    if kind == "LSTM":
        layer = LSTM(UNITS, **arguments)
    else:
        layer = GRU(UNITS, reset_after=kind == "GRU", **arguments)
    model, function = exported(layer)
    used = operators(model)
    assert used[kind[:4].strip(", ")] == 1 and not used["Loop"] and not used["Scan"]
    check_parity(model, function, PADDED + WITH_HOLES)


@pytest.mark.parametrize("return_sequences", [True, False])
@pytest.mark.parametrize("return_state", all_slow_but(True, cases=[True, False]))
@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_both_directions_are_two_operators(kind, return_sequences, return_state):
    arguments = {"return_sequences": return_sequences, "return_state": return_state}
    model, function = exported(Bidirectional(kind(UNITS, **arguments)))
    used = operators(model)
    assert used[kind.__name__] == 2 and not used["Loop"]
    check_parity(model, function, PADDED + WITH_HOLES)


@pytest.mark.parametrize(
    "layer, num_states",
    [
        (lambda **options: LSTM(UNITS, **options), 2),
        (lambda **options: GRU(UNITS, **options), 1),
        (lambda **options: GRU(UNITS, go_backwards=True, **options), 1),
        (lambda **options: Bidirectional(LSTM(UNITS, **options)), 4),
        (lambda **options: Bidirectional(GRU(UNITS, reset_after=False, **options)), 2),
    ],
    ids=["LSTM", "GRU", "backwards", "two LSTMs", "two GRUs"],
)
@pytest.mark.parametrize("masked", all_slow_but(True, cases=[True, False]))
def test_initial_states_count_even_in_empty_rows(layer, num_states, masked):
    layer = layer(return_sequences=True, return_state=True)
    model, function = exported(layer, masked, num_states)
    assert not operators(model)["Loop"]
    check_parity(model, function, PADDED + WITH_HOLES, num_states)


@pytest.mark.parametrize(
    "layer",
    [
        LSTM(UNITS),
        LSTM(UNITS, go_backwards=True, return_sequences=True),
        GRU(UNITS, return_sequences=True),
        Bidirectional(LSTM(UNITS, return_sequences=True)),
        Bidirectional(GRU(UNITS)),
    ],
    ids=["LSTM", "backwards", "GRU", "two LSTMs", "two GRUs"],
)
def test_layers_without_a_mask(layer):
    model, function = exported(layer, masked=False)
    assert not operators(model)["Loop"]
    check_parity(model, function, PADDED)


@pytest.mark.parametrize("cell, name", [(LSTMCell, "LSTM"), (GRUCell, "GRU")])
def test_a_cell_in_a_plain_recurrent_layer(cell, name):
    model, function = exported(RNN(cell(UNITS), return_sequences=True))
    assert operators(model)[name] == 1 and not operators(model)["Loop"]
    check_parity(model, function, PADDED + WITH_HOLES)


class OwnLSTM(LSTM):
    def inner_loop(self, sequences, *args, **kwargs):
        return super().inner_loop(2 * sequences, *args, **kwargs)


@pytest.mark.parametrize("masked", all_slow_but(True, cases=[True, False]))
@pytest.mark.parametrize(
    "layer",
    [
        lambda: LSTM(UNITS, activation="relu", return_sequences=True),
        lambda: LSTM(UNITS, recurrent_activation="hard_sigmoid"),
        lambda: GRU(UNITS, activation="softsign", return_sequences=True),
        lambda: RNN(keras.layers.StackedRNNCells([GRUCell(UNITS), GRUCell(UNITS)])),
        lambda: keras.layers.SimpleRNN(UNITS),
    ],
    ids=["relu", "hard_sigmoid", "softsign", "stacked cells", "SimpleRNN"],
)
def test_other_layers_keep_their_loop(layer, masked):
    model, function = exported(layer(), masked)
    used = operators(model)
    assert used["Loop"] == 1 and not used["LSTM"] and not used["GRU"]
    check_parity(model, function, PADDED + (WITH_HOLES if masked else []))


def test_a_layer_that_loops_in_its_own_way_keeps_its_loop():
    model, function = exported(OwnLSTM(UNITS))
    assert operators(model)["Loop"] == 1
    check_parity(model, function, PADDED)


def test_training_and_half_precision_keep_the_loop():
    assert operators(exported(GRU(UNITS), training=True)[0])["Loop"] == 1
    assert operators(exported(GRU(UNITS, dtype="mixed_float16"))[0])["Loop"] == 1


def test_a_mask_with_another_axis_keeps_the_loop():
    layer = GRU(UNITS)
    layer.build((None, None, FEATURES))
    mask_spec = tf.TensorSpec((None, None, 1), tf.bool, name="mask")

    def function(x, mask, layer=layer):
        return {"y": layer(x, mask=mask)}

    model = convert_fused(function, [INPUTS, mask_spec], layer)
    assert operators(model)["Loop"] == 1


def test_the_weights_are_reordered_in_the_file():
    layer = Bidirectional(LSTM(UNITS))
    model, _ = exported(layer)
    weights = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "LSTM":
            assert [weights[name] for name in node.input[1:4]] == [
                (1, 4 * UNITS, FEATURES),
                (1, 4 * UNITS, UNITS),
                (1, 8 * UNITS),
            ]
            assert all(name.endswith(("kernel", "bias")) for name in node.input[1:4])
    # The kernels in the order of Keras are not stored as well.
    assert sum(map(np.prod, weights.values())) < 1.3 * layer.count_params()


@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_no_rows_and_no_steps(layer):
    num_states = 2 if layer is LSTM else 1
    model, _ = exported(
        layer(UNITS, return_sequences=True, return_state=True), num_states=num_states
    )
    for batch, time in ((0, 3), (2, 0), (0, 0)):
        states = {f"state{index}": np.ones((batch, UNITS), "f") for index in range(num_states)}
        outputs, *last_states = run(
            model,
            x=np.ones((batch, time, FEATURES), "f"),
            mask=np.ones((batch, time), "?"),
            **states,
        )
        assert outputs.shape == (batch, time, UNITS)
        if not time:
            for state, last_state in zip(states.values(), last_states, strict=True):
                np.testing.assert_array_equal(last_state, state)


def searched_shapes(model, **inputs):
    """Returns the input shapes of the operators that need at least one row: TopK, LSTM and GRU."""
    read = [node.input[0] for node in model.graph.node if node.op_type in ("TopK", "LSTM", "GRU")]
    types = value_types(model)
    for name in read:
        rank = 2 if types[name] == onnx.TensorProto.INT32 else 3
        shape = [f"{name}/{axis}" for axis in range(rank)]
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, types[name], shape))
    values = run(model, **inputs)
    return [value.shape for value in values[-len(read) :]]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_operators_have_a_row_and_a_step(layer, backwards):
    """ONNX Runtime before 1.31 crashes otherwise."""
    made, _ = exported(layer(UNITS, go_backwards=backwards))
    for batch, time in ((0, 3), (2, 0), (0, 0)):
        inputs = {"x": np.ones((batch, time, FEATURES), "f"), "mask": np.ones((batch, time), "?")}
        shapes = searched_shapes(copy_of(made), **inputs)
        assert len(shapes) == 2 and all(min(shape) > 0 for shape in shapes)


def test_a_layer_inside_a_loop():
    layer = GRU(FEATURES, return_sequences=True)
    layer.build((None, None, FEATURES))

    def function(x, mask, layer=layer):
        def body(step, value):
            return step + 1, layer(value, mask=mask)

        return {"y": ops.while_loop(lambda step, _: step < 3, body, (0, x))[1]}

    model = convert_fused(function, [INPUTS, MASK], layer)
    for change in PASSES:
        change(model)
    check_model(model)
    assert operators(model)["Loop"] == operators(model)["GRU"] == 1
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    assert shapes[layer.cell.kernel.path] == (1, 3 * FEATURES, FEATURES)
    check_parity(model, function, PADDED)


def test_tf2onnx_still_fails_on_an_lstm_without_a_mask():
    """The reason for the mask of these layers. If this fails, remove the mask in `_inner_loop`."""
    layer = LSTM(UNITS)
    layer.build((None, None, FEATURES))
    (copied,) = portable_copy(layer)
    with pytest.raises(ExportError, match="rewriter_lstm_tf2"):
        convert(lambda x: {"y": copied(x)}, [INPUTS], layer.weights)


def test_other_python_functions_are_refused():
    def function(x):
        return {"y": tf.numpy_function(np.sin, [x], tf.float32, stateful=False)}

    with pytest.raises(ExportError, match="convert node 'PyFuncStateless'"):
        convert(function, [INPUTS], [])


@pytest.mark.slow
def test_the_encoder_of_a_translator(onnx_model):
    outside_the_search = Counter(node.op_type for node in onnx_model.graph.node)
    assert (outside_the_search["LSTM"], outside_the_search["Loop"]) == (2, 1)


@pytest.mark.slow
def test_a_translator_with_grus(tmp_path):
    path = tmp_path / "translator.onnx"
    export_onnx(make_translator(cell="gru"), path).check()
    outside_the_search = Counter(node.op_type for node in onnx.load(path).graph.node)
    assert (outside_the_search["GRU"], outside_the_search["Loop"]) == (2, 1)


def test_a_classifier_whose_mask_comes_from_its_embedding(tmp_path):
    ids = keras.Input((None,), dtype="int32", name="ids")
    features = keras.layers.Embedding(10, 4, mask_zero=True)(ids)
    features = Bidirectional(LSTM(3, return_sequences=True))(features)
    features = Bidirectional(GRU(3))(features)
    model = keras.Model(ids, keras.layers.Dense(2, name="logits")(features))
    sample = np.array([[5, 6, 7, 4], [9, 0, 4, 0], [8, 0, 0, 0]], "int32")
    path = tmp_path / "classifier.onnx"
    assert export_functional_onnx(model, path, sample).largest_difference < 1e-6
    used = operators(onnx.load(path))
    assert (used["LSTM"], used["GRU"], used["Loop"]) == (2, 2, 0)
    other = np.array([[1, 2, 3, 4, 5, 6], [7, 8, 0, 0, 0, 0]], "int32")
    (actual,) = session(path).run(None, {"ids": other})
    np.testing.assert_allclose(actual, model(other), atol=1e-6)


class SubclassedLSTM(LSTM):
    """A subclass, which a user could have changed."""


@pytest.mark.parametrize("masked", [True, False])
def test_a_subclass_keeps_its_loop(masked):
    model, function = exported(SubclassedLSTM(UNITS, return_sequences=True), masked)
    assert operators(model)["Loop"] and not operators(model)["LSTM"]
    check_parity(model, function, PADDED)
