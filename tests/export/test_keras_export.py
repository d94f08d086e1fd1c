"""Tests Keras' own `model.export`: ONNX, which uses all tf2onnx optimizers, and LiteRT."""

import keras
import numpy as np
import pytest

from keras_attn import (
    MultiHeadAttention,
    RNNEncoder,
    RotaryPositions,
    TransformerDecoderBlock,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from tests.contracts import assert_close, numpy
from tests.export.small_translator import session


def of_one(layer):
    inputs = keras.Input((None, 8), name="x")
    return keras.Model(inputs, layer(inputs))


def of_two(layer, attach_mask=False):
    inputs = [keras.Input((None, 8), name=name) for name in ("x", "y")]
    if attach_mask:
        inputs.append(keras.Input((None,), dtype="bool", name="mask"))
    return keras.Model(inputs, layer(*inputs))


def of_ids(encoder):
    ids = keras.Input((None,), dtype="int32", name="ids")
    return keras.Model(ids, encoder(ids)["encoder_outputs"])


MODELS = {
    "attention": lambda: of_one(MultiHeadAttention(2, 4)),
    "attention without biases": lambda: of_two(MultiHeadAttention(2, 4, use_bias=False)),
    "rotary attention": lambda: of_one(
        MultiHeadAttention(4, 4, value_dim=3, num_key_value_heads=2, rotary=RotaryPositions())
    ),
    "encoder block": lambda: of_one(TransformerEncoderBlock(2, 16)),
    "decoder block": lambda: of_two(TransformerDecoderBlock(2, 16), attach_mask=True),
    "Transformer encoder": lambda: of_ids(
        TransformerEncoder(
            TransformerEncoderBlock(2, 16), keras.layers.Embedding(9, 8), num_layers=1
        )
    ),
    "recurrent encoder": lambda: of_ids(
        RNNEncoder(keras.layers.LSTMCell(4), keras.layers.Embedding(9, 8))
    ),
}

FAST = ("attention without biases", "decoder block")


@pytest.mark.filterwarnings("ignore:In the future `np.object` will be defined:FutureWarning")
@pytest.mark.parametrize(
    "name",
    [each if each in FAST else pytest.param(each, marks=pytest.mark.slow) for each in MODELS],
)
def test_keras_export_writes_a_file_that_is_right_at_several_sizes(tmp_path, name):
    model, rng = MODELS[name](), np.random.default_rng(0)

    def random_inputs(batch, target, source):
        feed = {}
        for value in model.inputs:
            steps = source if value.name in ("y", "mask") else target
            shape = (batch, steps, *value.shape[2:])
            feed[value.name] = {
                "float32": rng.normal(size=shape).astype("float32"),
                "int32": rng.integers(1, 9, shape).astype("int32"),
                "bool": rng.random(shape) < 0.7,
            }[value.dtype]
        return feed

    def run(feed):
        values = list(feed.values())
        return numpy(model(values if len(values) > 1 else values[0]))

    run(random_inputs(2, 3, 3))
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    opened = session(tmp_path / "model.onnx")
    for sizes in ((2, 5, 4), (1, 7, 7), (3, 2, 6)):
        feed = random_inputs(*sizes)
        (found,) = opened.run(None, feed)
        assert_close(found, run(feed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder block", "Transformer encoder"])
def test_keras_export_writes_a_litert_file_of_a_fixed_batch_size(tmp_path, name):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    model = MODELS[name]()
    (value,) = model.inputs
    spec = keras.InputSpec(shape=(1, *value.shape[1:]), dtype=value.dtype)
    model.export(tmp_path / "model.tflite", format="litert", input_signature=[spec], verbose=False)
    run = interpreter.Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    (input_name,) = run.get_input_details()
    for steps in (3, 5):
        feed = np.random.default_rng(0).integers(1, 9, (1, steps, *value.shape[2:]))
        feed = feed.astype(value.dtype)
        (found,) = run(**{input_name: feed}).values()
        assert_close(found, numpy(model(feed)), 1e-4)


@pytest.mark.slow
def test_keras_export_to_litert_still_loses_infinite_constants(tmp_path):
    """If this fails, remove the limit from docs/keras-export.md."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    inputs = keras.Input((2,), batch_size=1, name="x")
    model = keras.Model(inputs, keras.ops.nan_to_num(inputs))
    model(np.zeros((1, 2), "float32"))
    model.export(tmp_path / "model.tflite", format="litert", verbose=False)
    run = interpreter.Interpreter(str(tmp_path / "model.tflite")).get_signature_runner()
    (found,) = run(x=np.array([[np.inf, 1.0]], "float32")).values()
    assert np.isinf(found).any()
