import functools
from typing import TYPE_CHECKING

import keras

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn.export._trace.recurrent_operator import recurrent_operator

if TYPE_CHECKING:
    import tensorflow as tf


def fuse_recurrence(*layers: keras.layers.Layer) -> None:
    """Changes LSTM and GRU layers so that each is exported as one ONNX operator, not as a loop.

    The changed layers can be traced and converted to ONNX, but not run. For every mask, the
    converted model returns the same results as Keras. The mask becomes the input `sequence_lens` of
    the operator: the real positions of each row are moved to the start of the row, in the order in
    which the layer reads them. After the operator, each output is moved back to its position. Each
    move is one Gather, which also performs the transposition that the operator requires.

    The following layers keep their loop:

    - layers with activations other than the defaults, or with a compute type other than float32;
    - layers whose mask does not have the shape `(batch, time)`;
    - layers with cells other than `keras.layers.LSTMCell` and `GRUCell`;
    - subclasses of `LSTM`, `GRU` and `RNN`.

    Args:
        *layers: Copies of Keras layers or models; all nested layers are changed.
    """
    for layer in flatten_layers(layers):
        if isinstance(layer, keras.layers.RNN):
            layer.inner_loop = functools.partial(_inner_loop, layer)


def _has_operator(layer: keras.layers.RNN) -> bool:
    cell = layer.cell
    return (
        type(layer) in (keras.layers.LSTM, keras.layers.GRU, keras.layers.RNN)
        and type(cell) in (keras.layers.LSTMCell, keras.layers.GRUCell)
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
        and cell.compute_dtype == layer.compute_dtype == "float32"
    )


def _inner_loop(
    layer: keras.layers.RNN,
    sequences: "tf.Tensor",
    initial_state: "list[tf.Tensor]",
    mask: "tf.Tensor | None",
    training: bool = False,
) -> "tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]":
    """Replaces `keras.layers.RNN.inner_loop`.

    Args:
        layer: `LSTM`, `GRU` or `RNN` layer.
        sequences: Tensor of shape `(batch, time, features)`.
        initial_state: List of tensors of shape `(batch, units)`.
        mask: Boolean tensor of shape `(batch, time)`, `True` for real positions, or `None`.
        training: Bool. If `True`, the layer keeps its loop, because the operators are for inference
            only.

    Returns:
        Tuple of the last output `(batch, units)`, the outputs `(batch, time, units)` (only the
        last, `(batch, 1, units)`, if the layer does not return sequences), and the list of the last
        states. As in Keras, the outputs of a layer with `go_backwards=True` are in the order in
        which the layer reads the positions.
    """
    import tensorflow as tf

    masks = [part for part in keras.tree.flatten(mask) if part is not None]
    if training or not _has_operator(layer) or any(len(part.shape) != 2 for part in masks):
        if not masks and isinstance(layer.cell, keras.layers.LSTMCell):
            # tf2onnx would recognize the loop of an LSTM without a mask, and fail on its weights.
            mask = tf.fill(tf.shape(sequences)[:2], True)
        return type(layer).inner_loop(layer, sequences, initial_state, mask, training=training)
    mask = masks[0] if masks else tf.ones(tf.shape(sequences)[:2], tf.int32)
    states = keras.tree.flatten(initial_state)
    outputs, states = _fused_loop(layer, sequences, states, tf.cast(mask, tf.int32))
    return outputs[:, -1], outputs, states


def _fused_loop(
    layer: keras.layers.RNN,
    sequences: "tf.Tensor",
    initial_state: "list[tf.Tensor]",
    mask: "tf.Tensor",
) -> "tuple[tf.Tensor, list[tf.Tensor]]":
    """Returns the outputs and states of `_inner_loop` for a mask.

    The mask is an int32 tensor of shape `(B, T)`: 1 at real positions, 0 elsewhere.
    """
    import tensorflow as tf

    batch, time = tf.shape(mask)[0], tf.shape(mask)[1]
    # TopK, LSTM and GRU of ONNX Runtime before 1.31 crash the process if a batch is empty. So their
    # inputs have R >= 1 rows and S >= 1 steps.
    more_rows, more_steps = 1 - tf.minimum(batch, 1), 1 - tf.minimum(time, 1)
    rows, steps = batch + more_rows, time + more_steps
    if layer.go_backwards:
        mask = tf.reverse(mask, [1])
    # Concat instead of Pad, because ONNX Runtime has no CUDA kernel that pads integers.
    is_real = tf.concat([mask, tf.zeros((batch, more_steps), tf.int32)], 1)  # (B, S)
    is_real = tf.concat([is_real, tf.zeros((more_rows, steps), tf.int32)], 0)  # (R, S)
    # Sorts the positions of each row: first the real positions, then the masked positions, each in
    # the order of reading. No two sort keys of a row are equal, so the result is unique.
    positions = tf.math.top_k(is_real * steps - tf.range(steps), steps).indices  # (R, S)
    if layer.go_backwards:
        positions = steps - 1 - positions
    positions = tf.expand_dims(tf.range(rows), 1) * time + positions  # (R, S)
    positions = tf.minimum(positions, batch * time)  # added rows and steps read the zeros in `flat`
    features = sequences.shape[-1]
    flat = tf.concat([tf.reshape(sequences, (-1, features)), tf.zeros((1, features))], 0)
    counts = tf.reduce_sum(mask, 1, keepdims=True)  # (B, 1)
    outputs, states = recurrent_operator(
        layer.cell,
        tf.gather(flat, tf.transpose(positions)),  # (S, R, I)
        # A row without real positions also takes one step; its results are not used.
        tf.concat([tf.maximum(tf.squeeze(counts, 1), 1), tf.ones(more_rows, tf.int32)], 0),  # (R,)
        [tf.pad(state, [[0, more_rows], [0, 0]]) for state in initial_state],  # (R, H)
    )
    started = tf.cast(tf.minimum(counts, 1), tf.float32)  # (B, 1)
    states = [
        started * state[:batch] + (1 - started) * initial
        for state, initial in zip(states, initial_state, strict=True)
    ]
    done = tf.cumsum(mask, axis=1)  # (B, T), number of real positions up to each position
    if not layer.return_sequences:
        done, mask = counts, mask[:, -1:]  # (B, 1)
    outputs = tf.gather(
        tf.reshape(outputs, (-1, layer.cell.units)),
        tf.maximum(done - 1, 0) * rows + tf.expand_dims(tf.range(batch), 1),
    )  # (B, T, H)
    # At a masked position, Keras repeats the previous output or returns zero.
    visible = mask if layer.zero_output_for_mask else tf.minimum(done, 1)
    outputs *= tf.expand_dims(tf.cast(visible, tf.float32), -1)
    return outputs, states
