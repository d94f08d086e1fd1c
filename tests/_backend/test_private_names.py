"""Fails when upstream changes a private name, or fixes what it works around."""

import inspect
import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn._backend import private_names

tf = pytest.importorskip("tensorflow") if keras.backend.backend() == "tensorflow" else None
needs_tensorflow = pytest.mark.skipif(tf is None, reason="a private name of TensorFlow or tf2onnx")
layers = keras.layers


def test_remat_mode_is_the_scope_of_the_layer():
    with keras.RematScope("full"):
        dense = layers.Dense(2)
    assert private_names.remat_mode(dense).mode == "full"
    private_names.end_remat(dense)
    assert private_names.remat_mode(dense) is None
    assert private_names.remat_mode(layers.Dense(2)) is None


@needs_tensorflow
def test_keras_still_recomputes_no_layer_with_a_keyword_argument_in_a_graph():
    with keras.RematScope("full"):
        dropout = layers.Dropout(0.5)
    with pytest.raises(Exception, match="training|keyword|kwargs"):
        tf.function(lambda x: dropout(x, training=True))(tf.ones((2, 2)))


def test_unlocked_layer_accepts_weights():
    dense = layers.Dense(2)
    dense.build((None, 3))
    with pytest.raises(ValueError, match="cannot add new elements of state"):
        dense.add_weight(name="late", shape=(1,))
    with private_names.unlocked(dense):
        dense.late = dense.add_weight(name="late", shape=(1,))
    assert dense.weights[-1] is dense.late
    with pytest.raises(ValueError, match="cannot add new elements of state"):
        dense.add_weight(name="later", shape=(1,))
    private_names.remove_weight(dense, "late")
    assert dense.late is None and len(dense.weights) == 2


def test_gradient_clipping_sees_the_gradients_of_a_step():
    class Doubling(private_names.GradientClipping, keras.optimizers.SGD):
        def clip_gradients(self, gradients):
            return [2 * each for each in super().clip_gradients(gradients)]

    variable = keras.Variable([0.0, 0.0])
    optimizer = Doubling(learning_rate=1.0, global_clipnorm=1.0)
    optimizer.apply([ops.convert_to_tensor([3.0, 4.0])], [variable])
    np.testing.assert_allclose(ops.convert_to_numpy(variable.value), [-1.2, -1.6], rtol=1e-6)


def test_metrics_have_directions():
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["accuracy"], weighted_metrics=["mae", "mae"])
    mean = keras.metrics.Mean(name="mean")
    private_names.set_direction(mean, "down")
    model.mean = mean
    model.fit(np.ones((1, 2)), np.ones((1, 1)), verbose=0)
    found = dict(private_names.metric_directions(model))
    assert found["accuracy"] == "up" and found["weighted_mae"] == found["mean"] == "down"
    assert found["loss"] is None


def test_compiled_metrics_include_those_that_are_not_built():
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    metrics = [keras.metrics.MeanSquaredError(), keras.metrics.AUC(), keras.metrics.Mean()]
    assert private_names.compiled_metrics(model) == []
    model.compile("sgd", "mse", metrics=["mae", *metrics[:2]], weighted_metrics=[[metrics[2]]])
    assert private_names.compiled_metrics(model) == metrics


def test_metrics_are_built_before_the_first_step():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    before = len(model.metrics_variables)
    private_names.build_symbolically(
        model, (np.ones((2, 3), "float32"), np.ones((2, 1), "float32"))
    )
    assert len(model.metrics_variables) == before + 2


def test_global_seed_state_determines_random_numbers():
    keras.utils.set_random_seed(0)
    assert private_names.global_seed_state() is None
    keras.random.uniform(())
    state = ops.convert_to_numpy(private_names.global_seed_state())
    expected = float(keras.random.uniform(()))
    private_names.set_global_seed_state(state)
    assert float(keras.random.uniform(())) == expected
    private_names.set_global_seed_state(None)
    assert private_names.global_seed_state() is None


def test_callbacks_have_the_attributes_of_their_state(tmp_path):
    path = str(tmp_path / "a.weights.h5")
    arguments = {"ModelCheckpoint": (path, "loss", 0, False, True), "CSVLogger": (path,)}
    for name, attributes in private_names.CALLBACK_ATTRIBUTES.items():
        callback = getattr(keras.callbacks, name)(*arguments.get(name, ()))
        if name in ("EarlyStopping", "ReduceLROnPlateau"):
            callback.on_train_begin()
        assert set(attributes) <= set(vars(callback)), name


def test_adam_moments_belong_to_the_variable():
    first, second = keras.Variable([0.0]), keras.Variable([0.0, 0.0])
    optimizer = keras.optimizers.Adam(beta_1=0.5, beta_2=0.5)
    optimizer.apply([ops.ones((1,)), 2 * ops.ones((2,))], [first, second])
    moments = private_names.adam_moments(optimizer, second)
    np.testing.assert_allclose(ops.convert_to_numpy(moments[0].value), [1, 1])
    np.testing.assert_allclose(ops.convert_to_numpy(moments[1].value), [2, 2])


def test_implicit_mask_is_what_keras_attaches():
    embedded = layers.Embedding(3, 2, mask_zero=True)(np.array([[1, 0]]))
    assert ops.convert_to_numpy(private_names.implicit_mask(embedded)).tolist() == [[True, False]]
    assert private_names.implicit_mask(ops.ones((1, 2))) is None


def test_pytorch_infers_shapes_with_placeholder_sizes():
    seen = []

    class Spy(layers.Layer):
        def call(self, inputs):
            seen.append((private_names.infers_shapes(), inputs.shape[1]))
            return inputs

    Spy()(np.zeros((1, 2)))
    assert seen.pop() == (False, 2)
    Spy()(keras.Input((None,)))
    assert all(inferring for inferring, _ in seen)
    if keras.backend.backend() == "torch":
        assert [size for _, size in seen] == [83, 89]


def test_model_fit_reads_data_adapters_as_they_are():
    class OneBatch(private_names.data_adapter_class()):
        num_batches = 1

        def get_jax_iterator(self):
            yield keras.ops.ones((2, 1)), keras.ops.ones((2, 1))

        get_torch_dataloader = get_jax_iterator

        def get_tf_dataset(self):
            import tensorflow as tf

            return tf.data.Dataset.from_tensors(next(self.get_jax_iterator()))

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    model.layers[0].kernel.assign([[0.0]])
    model.fit(OneBatch(), verbose=0)
    assert keras.ops.convert_to_numpy(model.layers[0].kernel) == 1  # 0 - 0.5 * 2 * (0 - 1)


def test_keras_still_quantizes_parts_of_layers_that_refuse():
    class Refusing(layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, inputs):
            return self.dense(inputs)

        def quantize(self, *args, **kwargs):
            raise NotImplementedError

    layer = Refusing()
    model = keras.Sequential([keras.Input((3,)), layer])
    model.quantize("int8", filters="dense|refusing")
    assert layer.dense.quantization_mode == "int8"


def test_graph_records_refer_to_layers():
    inputs = keras.Input((3,))
    dense = layers.Dense(2)
    keras.Model(inputs, dense(inputs))
    node_class, tracker_class = private_names.graph_record_classes()
    lists = [getattr(dense, name) for name in private_names.NODE_LISTS]
    assert [type(each) for each in lists[0]] == [node_class] and lists[0][0].operation is dense
    trackers = [each for each in vars(dense).values() if isinstance(each, tracker_class)]
    assert len(trackers) == 1 and trackers[0].stored_ids.keys() == trackers[0].config.keys()
    assert id(dense.kernel) in trackers[0].stored_ids["trainable_variables"]


def test_methods_that_exports_replace_have_the_expected_arguments():
    names = list(inspect.signature(keras.layers.RNN.inner_loop).parameters)
    assert names == ["self", "sequences", "initial_state", "mask", "training"]
    names = list(inspect.signature(keras.layers.TimeDistributed.call).parameters)
    assert names == ["self", "inputs", "training", "mask"]
    cells = [layers.GRUCell(2), layers.LSTMCell(2), layers.SimpleRNNCell(2), layers.Dense(2)]
    found = [private_names.has_dropout_masks(each) for each in cells]
    assert found == [True, True, True, False]


@needs_tensorflow
def test_time_distributed_is_still_wrong_for_an_unknown_number_of_steps():
    layer = layers.TimeDistributed(layers.Dense(2))
    inputs = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
    expected = layer(inputs)
    spec = tf.TensorSpec((None, None, 3), tf.float32)
    found = tf.function(layer, input_signature=[spec], autograph=False)(inputs)
    assert found.shape != expected.shape or np.abs(found - expected).max() > 1e-3


@needs_tensorflow
@pytest.mark.parametrize("jit_compile", [True, False])
def test_is_compiled_by_xla(jit_compile):
    found = []

    def function(x):
        found.append(private_names.is_compiled_by_xla())
        return x

    tf.function(function, jit_compile=jit_compile)(tf.ones(2))
    assert found == [jit_compile] and not private_names.is_compiled_by_xla()


@needs_tensorflow
def test_tf2onnx_still_cannot_convert_compiled_functions(monkeypatch):
    from keras_attn.export import ExportError
    from keras_attn.export._trace import conversion
    from tests.export.conversion_steps import convert

    compiled = tf.function(lambda x: tf.nn.relu(x), jit_compile=True, autograph=False)
    signature = [tf.TensorSpec((None, 3), tf.float32, name="x")]
    model = convert(lambda x: {"y": compiled(x)}, signature, [])
    assert {node.op_type for node in model.graph.node} <= {"Relu", "Identity"}
    monkeypatch.setattr(conversion, "inline_compiled_functions", lambda graph, *names: graph)
    with pytest.raises(ExportError, match="PartitionedCall"):
        convert(lambda x: {"y": compiled(x)}, signature, [])


@needs_tensorflow
def test_tf2onnx_still_walks_once_for_each_output():
    from tf2onnx.graph import Graph

    original = Graph.extract_sub_graph_nodes
    names = list(inspect.signature(original).parameters)
    assert names == ["self", "outputs_name", "input_checker", "remove_unused_inputs"]
    assert re.search(r"for \w+ in outputs_to_keep", inspect.getsource(original))
    with private_names.one_walk_for_all_outputs():
        assert Graph.extract_sub_graph_nodes is not original
    assert Graph.extract_sub_graph_nodes is original


@needs_tensorflow
def test_tf2onnx_still_logs_what_it_cannot_convert():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (2,), name="x")
        y = tf.raw_ops.Erfc(x=x, name="y")
    with private_names.logged_errors() as errors:
        model = private_names.to_onnx(graph, 18, {}, [x.name], [y.name], {})
    assert model.graph.node and any("Erfc" in error for error in errors)


@needs_tensorflow
def test_tf2onnx_has_the_converters_that_ours_call():
    import importlib

    for module, name, method in private_names.CONVERTERS.values():
        converters = importlib.import_module(f"tf2onnx.onnx_opset.{module}")
        arguments = list(inspect.signature(getattr(getattr(converters, name), method)).parameters)
        assert arguments[:2] == ["ctx", "node"]


@needs_tensorflow
def test_names_and_types_of_tf2onnx():
    from onnx import TensorProto

    first, second = (private_names.unique_node_name("einsum") for _ in range(2))
    assert first != second and first.startswith("einsum")
    assert private_names.numpy_type(TensorProto.INT16) == np.int16
