import keras
import numpy as np
import pytest

from keras_attn._backend.litert_tracing import traced_for_litert
from keras_attn._backend.scatter import scatter_add
from tests.backend import requires_tensorflow
from tests.contracts import numpy

RNG = np.random.default_rng(0)
TENSOR = RNG.normal(size=(2, 7)).astype("float32")
TENSOR[:, 0] = -np.inf
PLACES = np.array([[0, 3], [0, 3], [0, 3], [1, 0], [1, 6]], "int32")
VALUES = np.array([1.5, 0.0, 0.0, 0.0, -0.3], "float32")
EXPECTED = TENSOR.copy()
np.add.at(EXPECTED, tuple(PLACES.T), VALUES)


@pytest.mark.parametrize("places", [PLACES, PLACES[:0]], ids=["some", "none"])
def test_scatter_add_sums_values_at_repeated_indices(places):
    tensor = keras.ops.convert_to_tensor(TENSOR)
    received = scatter_add(tensor, places, VALUES[: len(places)])
    np.testing.assert_array_equal(numpy(received), EXPECTED if len(places) else TENSOR)


@requires_tensorflow("the conversion starts from a TensorFlow graph")
def test_scatter_add_is_exact_in_litert():
    import tensorflow as tf

    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    specs = [
        tf.TensorSpec((None, 7), "float32", name="tensor"),
        tf.TensorSpec((None, 2), "int32", name="places"),
        tf.TensorSpec((None,), "float32", name="values"),
    ]
    with traced_for_litert():
        function = tf.function(scatter_add, input_signature=specs).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    runner = interpreter.Interpreter(model_content=converter.convert())
    inputs = {"tensor": TENSOR, "places": PLACES, "values": VALUES}
    details = {
        each["name"].split(":")[0].rpartition("_")[2]: each["index"]
        for each in runner.get_input_details()
    }
    assert details.keys() == inputs.keys()
    for name, index in details.items():
        runner.resize_tensor_input(index, inputs[name].shape)
    runner.allocate_tensors()
    for name, index in details.items():
        runner.set_tensor(index, inputs[name])
    runner.invoke()
    received = runner.get_tensor(runner.get_output_details()[0]["index"])
    np.testing.assert_array_equal(received, EXPECTED)
