"""Represents the ONNX operators LSTM and GRU in a TensorFlow graph.

TensorFlow has no such operators. Instead, the traced graph contains a call of a Python function
that only raises an error. During the conversion, a handler of tf2onnx replaces the call by the ONNX
operator.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import keras

from keras_attn.export._trace.tf2onnx_graph import Graph, Handlers, Node

if TYPE_CHECKING:
    import tensorflow as tf

_NAME = "recurrent_operator"


def recurrent_operator(
    cell: keras.layers.LSTMCell | keras.layers.GRUCell,
    steps: "tf.Tensor",
    lengths: "tf.Tensor",
    states: "Sequence[tf.Tensor]",
) -> "tuple[tf.Tensor, list[tf.Tensor]]":
    """Runs a Keras cell over a sequence with a single ONNX operator, LSTM or GRU.

    TensorFlow can trace the returned tensors, and tf2onnx can convert them, but TensorFlow cannot
    compute them. The weights are transposed, because the rows of a weight matrix are the units in
    ONNX. The gates of an LSTM are reordered to input, output, forget, candidate.

    Args:
        cell: `keras.layers.LSTMCell` or `GRUCell`, float32, with the default activations.
        steps: Tensor of shape `(time, batch, features)`, the inputs.
        lengths: Int32 tensor of shape `(batch,)`, number of steps of each row, at least 1. (For
            0 steps, the result would depend on the runtime.)
        states: List of tensors of shape `(batch, units)`, the initial states: h, and for an LSTM
            also c.

    Returns:
        Tuple of the outputs `(time, batch, units)`, which are zero after the last step of a row,
        and the list of the states `(batch, units)` after the last step.
    """
    import tensorflow as tf

    kernel, recurrent_kernel, bias = _weights(cell)
    values = tf.numpy_function(
        _never_run,
        [
            int(getattr(cell, "reset_after", False)),
            steps,
            tf.expand_dims(tf.transpose(kernel), 0, name="kernel"),  # (1, gates*H, I)
            tf.expand_dims(tf.transpose(recurrent_kernel), 0, name="recurrent_kernel"),
            tf.expand_dims(bias, 0, name="bias"),  # (1, 2*gates*H)
            lengths,
            *(tf.expand_dims(state, 0) for state in states),  # (1, B, H)
        ],
        [tf.float32] * (1 + len(states)),
        stateful=False,
        name=_NAME,
    )
    # When the graph is frozen, shapes from `set_shape` would be lost.
    outputs = tf.ensure_shape(values[0], (steps.shape[0], 1, steps.shape[1], cell.units))
    states = [tf.ensure_shape(value, (1, steps.shape[1], cell.units)) for value in values[1:]]
    return tf.squeeze(outputs, 1), [tf.squeeze(state, 0) for state in states]


def _never_run(*_: object) -> NoReturn:
    raise NotImplementedError("This operator exists in ONNX only.")


def _weights(cell: keras.layers.LSTMCell | keras.layers.GRUCell) -> "list[tf.Tensor]":
    """Returns kernel `(I, gates*H)`, recurrent kernel `(H, gates*H)` and bias `(2*gates*H,)` of a
    cell.

    The first half of the bias belongs to the inputs, the second half to the state.
    """
    import tensorflow as tf

    weights = [tf.convert_to_tensor(cell.kernel), tf.convert_to_tensor(cell.recurrent_kernel)]
    size = weights[0].shape[-1]
    bias = tf.zeros((2 * size,)) if cell.bias is None else tf.reshape(cell.bias, (-1,))
    if bias.shape[0] == size:
        bias = tf.pad(bias, [[0, size]])
    weights.append(bias)
    if hasattr(cell, "reset_after"):
        return weights  # the gates of a GRU have the same order in Keras and ONNX
    return [_reorder_gates(weight, cell.units) for weight in weights]


def _reorder_gates(weight: "tf.Tensor", units: int) -> "tf.Tensor":
    """Reorders the gates of an LSTM from Keras, i f c o, to ONNX, i o f c."""
    import tensorflow as tf

    gates = tf.split(weight, weight.shape[-1] // units, -1)
    order = [index + gate for index in range(0, len(gates), 4) for gate in (0, 3, 1, 2)]
    return tf.concat([gates[index] for index in order], -1)


def _make_node(graph: Graph, node: Node, name: str, args: Sequence[object]) -> None:
    """Replaces the call of `_never_run` by the operator LSTM or GRU."""
    if _NAME not in name.split("/")[-1]:
        raise ValueError(f"{name} calls a Python function, which ONNX cannot do.")
    reset_after, *inputs = node.input
    steps, kernel, recurrent_kernel, bias, lengths, *states = inputs
    shape = graph.get_shape(recurrent_kernel)
    if shape is None:
        raise ValueError(f"{name} has weights of unknown shape.")
    attributes = {"hidden_size": shape[-1]}
    if len(states) == 1:
        reset_after = int(node.inputs[0].get_tensor_value())
        attributes["linear_before_reset"] = reset_after
    shapes, types = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    graph.make_node(
        "LSTM" if len(states) == 2 else "GRU",
        [steps, kernel, recurrent_kernel, bias, lengths, *states],
        attr=attributes,
        name=name,
        outputs=node.output,
        shapes=shapes,
        dtypes=types,
    )


HANDLERS: Handlers = {"PyFuncStateless": (_make_node, [])}
"""The argument `custom_op_handlers` of tf2onnx for `recurrent_operator`."""
