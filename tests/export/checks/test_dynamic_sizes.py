import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import LearnedPositions
from keras_attn.export import ExportError, export_functional_onnx
from tests.contracts import assert_close, numpy
from tests.export.small_translator import session


class StepsOfTheTrace(keras.layers.Layer):
    """Multiplies by the number of time steps, or by 5 if the axis is dynamic."""

    def call(self, inputs):
        return inputs * (inputs.shape[1] or 5)


def random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


@pytest.mark.parametrize(
    "make, attach_mask",
    [(lambda: keras.layers.LSTM(2), True), (lambda: keras.layers.Conv1D(2, 2), False)],
    ids=["LSTM", "Conv1D"],
)
def test_time_distributed_over_an_unknown_number_of_steps(tmp_path, make, attach_mask):
    inputs = keras.Input((None, 4, 3), name="x")
    hidden = keras.layers.Masking()(inputs) if attach_mask else inputs
    outputs = keras.layers.TimeDistributed(keras.layers.Dense(3))(hidden)
    model = keras.Model(inputs, keras.layers.TimeDistributed(make())(outputs))
    assert (
        export_functional_onnx(model, tmp_path / "m.onnx", random(1, 1, 4, 3)).largest_difference
        < 1e-5
    )
    batch = random(2, 6, 4, 3)
    batch[:, 4:] = 0
    (found,) = session(tmp_path / "m.onnx").run(None, {"x": batch})
    assert_close(found, numpy(model(batch)))


@pytest.mark.parametrize("shape", [(2, 5, 4), (2, 3, 4)])
def test_the_error_names_the_layer_that_is_wrong_at_some_sizes(tmp_path, shape):
    inner_inputs = keras.Input((None, 4))
    inner = keras.Model(inner_inputs, StepsOfTheTrace(name="steps")(inner_inputs + 1))
    inputs = keras.Input((None, 4), name="x")
    hidden = inner(keras.layers.Dense(4)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
    with pytest.raises(ExportError, match=r"the layer 'steps' \(StepsOfTheTrace\)"):
        export_functional_onnx(model, tmp_path / "m.onnx", np.ones(shape, "float32"))
    assert not (tmp_path / "m.onnx").exists()


def test_an_axis_at_which_keras_fails_is_fixed(tmp_path):
    one, two = keras.Input((None, 4), name="one"), keras.Input((None, 4), name="two")
    model = keras.Model([one, two], [one + random(5, 4), two * 2])
    sample = [random(2, 5, 4), random(2, 3, 4)]
    with pytest.warns(UserWarning, match="fixed size 5 for axis 1 of 'one'"):
        export_functional_onnx(model, tmp_path / "m.onnx", sample)
    shapes = [value.shape for value in session(tmp_path / "m.onnx").get_inputs()]
    assert shapes == [["batch", 5, 4], ["batch", "two_1", 4]]


def test_an_axis_with_a_limit_stays_dynamic(tmp_path):
    inputs = keras.Input((None, 4), name="x")
    model = keras.Model(inputs, LearnedPositions(5)(inputs))
    export_functional_onnx(model, tmp_path / "m.onnx", random(2, 5, 4))
    opened = session(tmp_path / "m.onnx")
    assert opened.get_inputs()[0].shape == ["batch", "x_1", 4]
    (found,) = opened.run(None, {"x": random(2, 2, 4)})
    assert_close(found, numpy(model(random(2, 2, 4))))


def test_axes_of_equal_sizes_change_together(tmp_path):
    one, two = keras.Input((None, 4), name="one"), keras.Input((None, 4), name="two")
    model = keras.Model([one, two], one + two)
    export_functional_onnx(model, tmp_path / "m.onnx", [random(2, 5, 4), random(2, 5, 4)])
    nodes, edges = keras.Input((3,), name="nodes"), keras.Input((None,), name="edges")
    model = keras.Model([nodes, edges], ops.matmul(edges, nodes))
    export_functional_onnx(model, tmp_path / "m.onnx", [random(5, 3), random(5, 5)])
    inputs = session(tmp_path / "m.onnx").get_inputs()
    assert [value.shape for value in inputs] == [["batch", 3], ["batch", "edges_1"]]


def test_dynamic_sizes_are_those_of_the_second_comparison(tmp_path):
    short, long = keras.Input((None, 4), name="short"), keras.Input((None, 4), name="long")
    halved = keras.layers.Reshape((-1, 8))(long)[:, :, :4]
    outputs = StepsOfTheTrace()(short) + halved
    model, sample = keras.Model([short, long], outputs), [random(2, 5, 4), random(2, 10, 4)]
    path, sizes = tmp_path / "m.onnx", {"short": (3, 7, 4), "long": (None, 14, 4)}
    with pytest.warns(UserWarning, match="fixed size"):
        export_functional_onnx(model, path, sample)
    with pytest.raises(ExportError, match=r"'short': \(3, 7, 4\), 'long': \(3, 14, 4\)"):
        export_functional_onnx(model, path, sample, dynamic_sizes=sizes)
    for wrong, message in (
        ({"other": (2, 7, 4)}, "other"),
        ({"short": (2, 7, 5)}, r"dynamic_sizes\['short'\]=\(2, 7, 5\)"),
        ({"short": (2, 7)}, r"dynamic_sizes\['short'\]=\(2, 7\)"),
        ({"short": (2, 7, 4), "long": (3, 14, 4)}, "same number of rows"),
        ({"short": (2, 7, 4)}, "sizes at which Keras runs"),
    ):
        with pytest.raises(ValueError, match=message):
            export_functional_onnx(model, path, sample, dynamic_sizes=wrong)
