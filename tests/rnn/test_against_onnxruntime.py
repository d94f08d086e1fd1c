"""ONNX Runtime has an LSTM with additive attention and input feeding, written by others."""

import keras
import numpy as np
import pytest

from keras_attn import AttentionRNN, AttentionRNNCell, BahdanauAttention
from tests.contracts import assert_close, numpy, randomize

onnxruntime = pytest.importorskip("onnxruntime", reason="the implementation to compare with")
onnx = pytest.importorskip("onnx", reason="to write the graph of one AttnLSTM node")

BATCH, TIME, SOURCE, FEATURES, UNITS, VALUES, ATTENTION = 2, 4, 6, 3, 5, 7, 8


def attn_lstm(arrays, with_vector):
    """The outputs Y (T, 1, B, H), Y_h and Y_c of an AttnLSTM node."""
    names = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
    names += ["QW", "MW", "V", "M", "memory_seq_lens"] + ["AW"] * with_vector
    node = onnx.helper.make_node(
        "AttnLSTM",
        [name if name in arrays else "" for name in names],
        ["Y", "Y_h", "Y_c"],
        domain="com.microsoft",
        hidden_size=UNITS,
    )
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    ]
    outputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in node.output
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "attention", inputs, outputs),
        opset_imports=[
            onnx.helper.make_opsetid("", 18),
            onnx.helper.make_opsetid("com.microsoft", 1),
        ],
        ir_version=10,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


def iofc(array):
    """The gates of Keras (i, f, c, o) in the order of ONNX, transposed, with a direction axis."""
    i, f, c, o = np.split(array, 4, axis=-1)
    return np.concatenate([i, o, f, c], axis=-1).T[None]


@pytest.mark.parametrize("attention_units", [None, 9])
def test_bahdanau_attention_around_an_lstm_cell(attention_units):
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(BATCH, TIME, FEATURES)).astype("float32")
    values = generator.normal(size=(BATCH, SOURCE, VALUES)).astype("float32")
    lengths = np.array([SOURCE, 4], "int32")
    mask = np.arange(SOURCE) < lengths[:, None]
    cell = AttentionRNNCell(
        keras.layers.LSTMCell(UNITS),
        BahdanauAttention(ATTENTION),
        input_feeding=True,
        attention_units=attention_units,
        attention_activation="linear",
    )
    layer = AttentionRNN(cell, return_state=True)
    layer(inputs, values)
    randomize(layer)
    outputs, (hidden, memory_cell) = numpy(layer(inputs, values, mask))

    lstm, attention = cell.cell, cell.attention
    bias = iofc(numpy(lstm.bias)[None])[:, :, 0]  # (1, 4H)
    arrays = {
        "X": inputs.transpose(1, 0, 2),
        "W": iofc(numpy(lstm.kernel)),
        "R": iofc(numpy(lstm.recurrent_kernel)),
        "B": np.concatenate([bias, np.zeros_like(bias)], axis=1),
        "QW": numpy(attention.query_kernel)[None],
        "MW": numpy(attention.key_kernel)[None],
        "V": numpy(attention.vector).T,
        "M": values,
        "memory_seq_lens": lengths,
    }
    if attention_units:
        # The node joins cell output and context in the other order.
        kernel = numpy(cell.attention_layer.kernel)
        arrays["AW"] = kernel[None]
    y, y_h, y_c = attn_lstm(arrays, bool(attention_units))
    assert_close(hidden, y_h[0])
    assert_close(memory_cell, y_c[0])
    if not attention_units:
        assert_close(outputs[:, :, :UNITS], y[:, 0].transpose(1, 0, 2))
