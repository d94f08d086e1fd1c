import os
import sys
from collections import OrderedDict

import keras
import numpy as np
import onnx
import pytest

from keras_attn import AttentionRNN, AttentionRNNCell, BahdanauAttention, LuongAttention
from keras_attn.export import ExportError, export_functional_onnx
from tests.backend import precision
from tests.contracts import assert_close, numpy
from tests.export.small_translator import session

IDS = np.array([[5, 6, 7], [9, 4, 0], [8, 0, 0]], "int32")


def make_classifier():
    ids = keras.Input((None,), dtype="int32", name="ids")
    embedded = keras.layers.Embedding(10, 4)(ids)
    mask = keras.ops.not_equal(ids, 0)
    outputs = keras.layers.Bidirectional(keras.layers.GRU(3, return_sequences=True))(
        embedded, mask=mask
    )
    query = keras.layers.GlobalAveragePooling1D(keepdims=True)(outputs)
    context, weights = BahdanauAttention(5, name="attention")(
        query, outputs, attention_mask=mask, return_attention_scores=True
    )
    label = keras.layers.Dense(1, activation="sigmoid", name="label")(context[:, 0])
    return keras.Model(ids, {"label": label, "weights": weights[:, 0]})


def test_a_classifier_with_attention(tmp_path):
    model, path = make_classifier(), tmp_path / "classifier.onnx"
    assert export_functional_onnx(model, path, IDS).largest_difference < 1e-6
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    assert set(names) == {"label", "weights"}
    assert opened.get_inputs()[0].shape == ["batch", "ids_1"]
    ids = np.random.default_rng(0).integers(1, 10, (4, 7)).astype("int32")
    actual = dict(zip(names, opened.run(None, {"ids": ids}), strict=True))
    for name, value in model(ids).items():
        np.testing.assert_allclose(actual[name], value, atol=1e-6)


def test_a_loop_over_time(tmp_path):
    inputs, memory = keras.Input((None, 3), name="inputs"), keras.Input((None, 4), name="memory")
    layer = AttentionRNN(AttentionRNNCell(keras.layers.LSTMCell(5), BahdanauAttention(6)))
    outputs, weights = layer(inputs, memory, return_attention_scores=True)
    model = keras.Model([inputs, memory], {"outputs": outputs, "weights": weights})

    def sample(batch, target, source):
        sizes = {"inputs": (batch, target, 3), "memory": (batch, source, 4)}
        return {name: np.random.normal(size=size).astype("f") for name, size in sizes.items()}

    assert (
        export_functional_onnx(model, tmp_path / "rnn.onnx", sample(2, 3, 4)).largest_difference
        < 1e-6
    )
    opened = session(tmp_path / "rnn.onnx")
    fed = sample(3, 7, 5)
    names = [output.name for output in opened.get_outputs()]
    for name, received in zip(names, opened.run(None, fed), strict=True):
        np.testing.assert_allclose(received, model(fed)[name], atol=1e-6)


def test_several_inputs_by_name(tmp_path):
    first, second = keras.Input((2,), name="first"), keras.Input((3,), name="second")
    joined = keras.layers.Concatenate()([second, first])
    model = keras.Model([first, second], keras.layers.Dense(1, name="score")(joined))
    sample = {"second": np.ones((5, 3)), "first": np.zeros((5, 2))}
    export_functional_onnx(model, tmp_path / "model.onnx", sample)
    assert [each.name for each in session(tmp_path / "model.onnx").get_inputs()] == [
        "first",
        "second",
    ]
    with pytest.raises(ValueError, match=r"none for \['first'\]"):
        export_functional_onnx(model, tmp_path / "x.onnx", {"second": np.ones((5, 3))})
    with pytest.raises(ValueError, match="at least one"):
        export_functional_onnx(model, tmp_path / "x.onnx", [np.ones((0, 2)), np.ones((0, 3))])
    for odd in ([np.ones((5, 2)), np.ones((4, 3))], [np.ones((5, 2)), 3.0]):
        with pytest.raises(ValueError, match="same number of rows"):
            export_functional_onnx(model, tmp_path / "x.onnx", odd)


@pytest.mark.filterwarnings("ignore:When providing `inputs` as a dict, all keys")
def test_dictionaries_and_infinities(tmp_path):
    inputs = {"query": keras.Input((None, 4)), "value": keras.Input((None, 4))}
    context = LuongAttention("dot")(inputs["query"], inputs["value"])
    scores = keras.ops.where(context > 0, context, -float("inf"))
    model = keras.Model(inputs, {"parts": {"context": context}, "scores": [scores]})
    rng = np.random.default_rng(0)
    sample = {name: rng.normal(size=(2, 3, 4)).astype("float32") for name in inputs}
    assert export_functional_onnx(model, tmp_path / "model.onnx", sample).largest_difference < 1e-6
    opened = session(tmp_path / "model.onnx")
    assert [each.name for each in opened.get_inputs()] == ["query", "value"]
    assert [each.name for each in opened.get_outputs()] == ["parts/context", "scores/0"]
    (received,) = opened.run(["scores/0"], sample)
    assert np.isneginf(received).any() and np.isfinite(received).any()


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.MultiHeadAttention(2, 4),
        lambda: keras.layers.GroupQueryAttention(4, 4, 2),
        lambda: keras.layers.EinsumDense("abc,cd->abd", output_shape=(None, 7), bias_axes="d"),
    ],
)
def test_layers_of_keras_that_are_written_with_einsum(tmp_path, layer):
    inputs, layer = keras.Input((None, 8)), layer()
    is_attention = not isinstance(layer, keras.layers.EinsumDense)
    outputs = layer(inputs, inputs, use_causal_mask=True) if is_attention else layer(inputs)
    model = keras.Model(inputs, outputs)
    features = np.random.default_rng(0).normal(size=(3, 5, 8)).astype("float32")
    path = tmp_path / "model.onnx"
    assert export_functional_onnx(model, path, features).largest_difference < 1e-5
    assert "Einsum" not in {node.op_type for node in onnx.load(path).graph.node}
    longer = np.concatenate([features, features], axis=1)
    (found,) = session(path).run(None, {model.inputs[0].name: longer})
    assert_close(found, numpy(model(longer)))


def test_convolutions_and_pooling(tmp_path):
    ids = keras.Input((12,), dtype="int32", name="ids")
    features = keras.layers.Embedding(10, 4)(ids)
    for layer in (
        keras.layers.Conv1D(6, 3, padding="same", activation="hard_sigmoid"),
        keras.layers.BatchNormalization(),
        keras.layers.MaxPooling1D(2),
        keras.layers.AveragePooling1D(2),
        keras.layers.PReLU(shared_axes=[1]),
        keras.layers.Conv1DTranspose(6, 3),
    ):
        features = layer(features)
    outputs = LuongAttention("dot")(features, features)
    model = keras.Model(ids, keras.layers.GlobalMaxPooling1D()(outputs))
    sample = np.random.default_rng(0).integers(1, 10, (5, 12))
    assert export_functional_onnx(model, tmp_path / "model.onnx", sample).largest_difference < 1e-6


def test_a_stateful_layer_is_refused(tmp_path):
    inputs = keras.Input(batch_shape=(1, 1, 3))
    layer = keras.layers.Bidirectional(keras.layers.LSTM(4, stateful=True))
    with pytest.raises(ValueError, match="layers without a state between calls"):
        export_functional_onnx(
            keras.Model(inputs, layer(inputs)), tmp_path / "x.onnx", np.ones((1, 1, 3))
        )


def test_outputs_of_one_layer_get_names_of_their_own(tmp_path):
    query = keras.Input((None, 4), name="query")
    outputs = LuongAttention("dot", name="attention")(query, query, return_attention_scores=True)
    export_functional_onnx(
        keras.Model(query, list(outputs)), tmp_path / "model.onnx", np.ones((2, 3, 4))
    )
    shapes = {each.name: each.shape for each in session(tmp_path / "model.onnx").get_outputs()}
    assert shapes == {
        "attention": ["batch", "attention_1", 4],
        "attention_1": ["batch", "attention_1_1", "attention_1_2"],
    }


def test_a_layer_with_the_name_that_another_output_got_keeps_its_output(tmp_path):
    query = keras.Input((3, 4), name="query")
    outputs = LuongAttention("dot", name="layer")(query, query, return_attention_scores=True)
    model = keras.Model(query, [*outputs, keras.layers.Dense(2, name="layer_1")(query)])
    export_functional_onnx(model, tmp_path / "model.onnx", np.ones((2, 3, 4)))
    names = [each.name for each in session(tmp_path / "model.onnx").get_outputs()]
    assert names == ["layer", "layer_1", "layer_1_1"]


def test_output_that_is_an_input_gets_another_name(tmp_path):
    x, other = keras.Input((3,), name="x"), keras.Input((3,), name="other")
    model = keras.Model([x, other], [other, x, keras.layers.Dense(2, name="y")(x), x])
    arrays = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    export_functional_onnx(model, tmp_path / "model.onnx", list(arrays))
    opened = session(tmp_path / "model.onnx")
    assert [each.name for each in opened.get_outputs()] == ["other_1", "x_1", "y", "x_2"]
    names = ["other_1", "x_1", "x_2"]
    found = opened.run(names, {"x": arrays[0], "other": arrays[1]})
    for value, expected in zip(found, arrays[[1, 0, 0]], strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    "outputs, message",
    [
        (lambda y, z: {"o/ut": y, "o": {"ut": z}}, r"the keys \[\('o', 'ut'\), \('o/ut',\)\]"),
        (lambda y, z: {"o": [y, z], "o/1": y}, r"the keys \[\('o', 1\), \('o/1',\)\]"),
        (lambda y, z: {"z": z, "ids": y}, r"\['ids'\] in both.*'ids_output': "),
        (lambda y, z: {"": y, "z": z}, "keys that are not empty"),
    ],
)
def test_output_keys_that_cannot_be_names_are_refused(tmp_path, outputs, message):
    ids = keras.Input((3,), name="ids")
    model = keras.Model({"ids": ids}, outputs(*(keras.layers.Dense(n)(ids) for n in (1, 2))))
    with pytest.raises(ValueError, match=f"{message}.*") as error:
        export_functional_onnx(model, tmp_path / "model.onnx", {"ids": np.ones((2, 3))})
    assert "Rename" in str(error.value) and list(tmp_path.iterdir()) == []


def test_nested_inputs_are_named_by_their_paths(tmp_path):
    x, y = keras.Input((3,)), keras.Input((3,))
    rng = np.random.default_rng(0)
    sample = {"a": {"b/c": rng.normal(size=(2, 3))}, "d": [rng.normal(size=(2, 3))]}
    model = keras.Model({"a": {"b/c": x}, "d": [y]}, x - 2 * y)
    export_functional_onnx(model, tmp_path / "model.onnx", sample)
    feed = {"a/b/c": sample["a"]["b/c"], "d/0": sample["d"][0]}
    feed = {name: array.astype("float32") for name, array in feed.items()}
    (found,) = session(tmp_path / "model.onnx").run(None, feed)
    np.testing.assert_allclose(found, feed["a/b/c"] - 2 * feed["d/0"], atol=1e-6)
    model = keras.Model({"a": {"b/c": x, "b": {"c": y}}}, x - y)
    with pytest.raises(ValueError, match="keys of the inputs.*Rename"):
        export_functional_onnx(model, tmp_path / "other.onnx", sample)


def test_path_that_is_not_utf8_is_refused_before_the_conversion(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_attn.export._formats.export_functional_onnx.trace", None)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    path = tmp_path / os.fsdecode(b"mod\xe8le.onnx")
    with pytest.raises(ValueError, match=r"Expected a path of valid UTF-8.*mod\\udce8le.*Rename"):
        export_functional_onnx(model, path, np.ones((2, 3)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [0.01, np.nan])
def test_a_model_that_disagrees_is_refused(tmp_path, monkeypatch, wrong):
    x = keras.Input((3,), name="x")
    model = keras.Model(x, keras.layers.Dense(1, name="y")(x))
    monkeypatch.setattr(
        sys.modules["keras_attn.export._formats.onnx_file"],
        "open_session",
        lambda path: lambda x: {"y": model(x).numpy() + wrong},
    )
    with pytest.raises(ExportError, match="disagrees with Keras"):
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 3)))
    assert not list(tmp_path.iterdir())


def test_integers_must_be_equal(tmp_path, monkeypatch):
    x = keras.Input((3,), name="x", dtype="int32")
    model = keras.Model(x, keras.layers.Identity(name="y")(x + 250_000))
    monkeypatch.setattr(
        sys.modules["keras_attn.export._formats.onnx_file"],
        "open_session",
        lambda path: lambda x: {"y": x + 250_001},
    )
    with pytest.raises(ExportError, match="disagrees with Keras"):
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 3)))


def test_only_axes_of_the_batch_are_called_so(tmp_path):
    x = keras.Input((None, 4), name="x")
    outputs = {
        "all": keras.ops.reshape(x, (-1, 4)),
        "most": keras.ops.max(x, axis=0),
        "own": x * 2.0,
    }
    model = keras.Model(x, outputs)
    export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 3, 4)))
    shapes = {each.name: each.shape for each in session(tmp_path / "x.onnx").get_outputs()}
    assert shapes == {"all": ["all_0", 4], "most": ["most_0", 4], "own": ["batch", "own_1", 4]}


def test_a_model_that_is_not_functional_is_refused(tmp_path):
    with pytest.raises(ValueError, match="functional Keras model"):
        export_functional_onnx(keras.layers.Dense(1), tmp_path / "x.onnx", IDS)


def test_a_sequential_model(tmp_path):
    model = keras.Sequential(
        [keras.Input((None, 3), name="x"), keras.layers.LSTM(4), keras.layers.Dense(1)]
    )
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    assert export_functional_onnx(model, tmp_path / "x.onnx", x).largest_difference < 1e-6
    (found,) = session(tmp_path / "x.onnx").run(None, {"x": x[:, :4]})
    np.testing.assert_allclose(found, model(x[:, :4]), atol=1e-6)


def test_batches_of_one_size(tmp_path):
    x = keras.Input(batch_shape=(3, 2), name="x")
    model = keras.Model(x, keras.layers.Dense(2)(x))
    assert (
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((3, 2))).largest_difference
        < 1e-6
    )
    with pytest.raises(ValueError, match="Expected 3 rows.* Received: .* 2 rows"):
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 2)))


def test_names_of_the_exporter_are_free_for_the_model(tmp_path):
    x = keras.Input((2,), name="two")
    norm = keras.layers.RMSNormalization(name="one")
    model = keras.Model(x, norm(x))
    assert (
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((3, 2))).largest_difference
        < 1e-6
    )


def test_a_name_of_a_weight_is_free_for_an_input(tmp_path):
    first, second = keras.Input((3,), name="weight_0"), keras.Input((3,), name="weight_1")
    model = keras.Model([first, second], keras.layers.Dense(2)(first) + second[:, :2])
    sample = {name: np.random.normal(size=(4, 3)) for name in ("weight_0", "weight_1")}
    assert export_functional_onnx(model, tmp_path / "x.onnx", sample).largest_difference < 1e-6
    assert [each.name for each in session(tmp_path / "x.onnx").get_inputs()] == list(sample)


def test_outputs_in_an_order_of_their_own_keep_their_names(tmp_path):
    x = keras.Input((3,), name="x")
    outputs = OrderedDict(weights=x * 2, label=keras.ops.sum(x, -1, keepdims=True))
    model = keras.Model(x, outputs)
    export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 3)))
    opened = session(tmp_path / "x.onnx")
    sizes = {each.name: each.shape[1] for each in opened.get_outputs()}
    assert sizes == {"weights": 3, "label": 1}


@pytest.mark.parametrize("make", ["slice", "gather"])
def test_a_table_of_integers_cut_at_a_length(tmp_path, make):
    """The contents of the table are constant; the length of the slice is not."""

    class Numbered(keras.layers.Layer):
        def build(self, shape):
            self.table = self.add_weight(
                shape=(16,), dtype="int32", initializer="zeros", trainable=False
            )
            self.table.assign(np.arange(16)[::-1])

        def call(self, x):
            import tensorflow as tf

            length = tf.shape(x)[1]
            if make == "gather":
                return x + tf.cast(tf.gather(self.table, length), "float32")
            return x + tf.cast(self.table[:length], "float32")[:, None]

    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, Numbered()(x))
    assert (
        export_functional_onnx(model, tmp_path / "x.onnx", np.ones((2, 5, 3))).largest_difference
        < 1e-6
    )


def test_many_uneven_parts(tmp_path):
    """The sizes of the parts differ, so the number of parts does not determine them."""
    x = keras.Input((None, 36), name="x")
    parts = keras.ops.split(x, [1, 4, *range(5, 20)], axis=-1)  # 18 parts
    outputs = [keras.layers.Dense(2)(part) for part in parts]
    model = keras.Model(x, keras.layers.Add()(outputs))
    sample = np.random.default_rng(0).normal(size=(2, 5, 36))
    assert export_functional_onnx(model, tmp_path / "x.onnx", sample).largest_difference < 1e-5


def test_random_numbers_are_refused_by_name(tmp_path):
    class Noise(keras.layers.Layer):
        def call(self, x):
            import tensorflow as tf

            return x + tf.random.normal(tf.shape(x))

    x = keras.Input((2,), name="x")
    with pytest.raises(ExportError, match="RandomNormal"):
        export_functional_onnx(keras.Model(x, Noise()(x)), tmp_path / "x.onnx", np.ones((3, 2)))


def test_a_model_of_mixed_precision_is_exported_in_that_of_its_weights(tmp_path):
    with precision("mixed_float16"):
        model = make_classifier()
    assert (
        export_functional_onnx(model, tmp_path / "classifier.onnx", IDS).largest_difference < 1e-6
    )
    assert model.get_layer("label").compute_dtype == "float16"


def test_layers_without_a_config_functions_and_lambdas_are_exported(tmp_path):
    class Scale(keras.layers.Layer):
        def __init__(self, factor, function):
            super().__init__()
            self.factor, self.function = factor, function

        def call(self, x):
            return self.function(x) * self.factor

    inputs = keras.Input((3,), name="x")
    scaled = Scale(2.0, lambda x: keras.ops.tanh(x))(inputs)
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: x + 1, name="y")(scaled))
    model.layers[1].factor = 3.0
    x = np.ones((2, 3), "float32")
    export_functional_onnx(model, tmp_path / "model.onnx", x)
    (found,) = session(tmp_path / "model.onnx").run(["y"], {"x": x})
    np.testing.assert_allclose(found, 3 * np.tanh(x) + 1, rtol=1e-6)
