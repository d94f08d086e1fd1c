"""Checks of position encodings that are called with inputs and a start index."""

import keras
import numpy as np
from keras import ops

from tests.contracts import assert_close, numpy


def check_start_index(layer, inputs, axis):
    """Checks that each time step of a full call equals a call with this step and its position.

    Args:
        layer: The layer, already built.
        inputs: Array of shape `(batch, ...)`, batch > 1, its first argument.
        axis: Int, the time axis.
    """
    length = inputs.shape[axis]
    for start in range(3):
        full = numpy(layer(inputs, start_index=start))
        assert start == 0 or np.abs(full - numpy(layer(inputs))).max() > 1e-3
        for column in range(length):
            one = np.take(inputs, [column], axis)
            expected = np.take(full, [column], axis)
            scalar = ops.convert_to_tensor(start + column, "int32")
            rows = ops.convert_to_tensor([start + column] * len(inputs), "int32")
            for start_index in (start + column, scalar, rows):
                assert_close(numpy(layer(one, start_index=start_index)), expected, 1e-6)
    starts = np.arange(len(inputs), dtype="int32") * 2
    together = numpy(layer(inputs, start_index=starts))
    for row, start in enumerate(starts):
        alone = numpy(layer(inputs[row : row + 1], start_index=int(start)))
        assert_close(together[row : row + 1], alone, 1e-6)


def functional_model(layer, features):
    """A model of unknown sizes with a start index for each row.

    Args:
        layer: the layer.
        features: tuple of int or None, the shape of the inputs without the batch.
    """
    inputs = keras.Input(features, name="inputs")
    start_index = keras.Input((), dtype="int32", name="start_index")
    outputs = layer(inputs, start_index=start_index)
    assert outputs.shape == (None, *features)
    return keras.Model([inputs, start_index], keras.layers.Identity(name="outputs")(outputs))


def check_compiled(layer, inputs, features):
    """Checks that a compiled model with unknown sizes returns the results of the layer."""
    model = functional_model(layer, features)
    start_index = np.arange(len(inputs), dtype="int32")
    expected = numpy(layer(inputs, start_index=start_index))
    assert_close(model.predict([inputs, start_index], verbose=0), expected, 1e-6)


def check_export(layer, inputs, features, path):
    """Checks that an ONNX file returns the results of the layer, with and without a start index.

    Returns:
        Sorted types of its operators, without a start index.
    """
    import onnx

    from keras_attn.export import export_functional_onnx

    model = functional_model(layer, features)
    start_index = np.arange(len(inputs), dtype="int32")
    assert export_functional_onnx(model, path, [inputs, start_index]).largest_difference < 1e-5
    symbolic = keras.Input(features, name="inputs")
    outputs = keras.layers.Identity(name="outputs")(layer(symbolic))
    assert (
        export_functional_onnx(keras.Model(symbolic, outputs), path, inputs).largest_difference
        < 1e-5
    )
    return sorted(node.op_type for node in onnx.load(path).graph.node)
