import dataclasses
from typing import Any

import keras

from keras_attn._rnn.cell_states import output_size, top_state
from keras_attn._types import StaticShape


@dataclasses.dataclass(frozen=True)
class AttentionCellSizes:
    """Vector sizes in an `AttentionRNNCell`.

    Args:
        query: Int, query size.
        context: Int, context size.
        attention: Int, size of the attention vector. With input feeding, it is an input to the next
            step.
        cell_inputs: Int, size of the inner cell's input vector. It contains the step's inputs, the
            context if attention is computed before the cell, and the attention vector with input
            feeding.
        joined: Int, total size of the cell output and the context.
    """

    query: int
    context: int
    attention: int
    cell_inputs: int
    joined: int


def compute_sizes(
    layer: keras.layers.Layer,
    inputs_shape: StaticShape,
    encoder_outputs_shape: Any,
    query_features_shape: StaticShape | None,
) -> AttentionCellSizes:
    """Computes the sizes for an `AttentionRNNCell` with attention.

    Args:
        layer: `AttentionRNNCell`.
        inputs_shape: Tuple, see `AttentionRNNCell.build`.
        encoder_outputs_shape: Tuple, see `AttentionRNNCell.build`.
        query_features_shape: Tuple, see `AttentionRNNCell.build`.

    Returns:
        `AttentionCellSizes`.

    Raises:
        ValueError: If the query contains the context, and their sizes depend on each other.
    """
    cell_output = output_size(layer.cell)
    query = layer.composed_query.size_without_context(
        cell_output=cell_output,
        previous_state=top_state(layer.cell, layer.cell.state_size),
        inputs=inputs_shape[-1],
        features=query_features_shape and query_features_shape[-1],
    )
    context = _context_size(layer.attention, query, encoder_outputs_shape)
    if "context" in layer.composed_query:
        query += context
        if _context_size(layer.attention, query, encoder_outputs_shape) != context:
            raise ValueError(
                "Expected a context whose size does not depend on the query that contains it. "
                f"Received: query_from={layer.query_from!r}. Pass output_shape to the attention."
            )
    attention = layer.attention_units or context
    cell_inputs = inputs_shape[-1]
    if not layer.attends_after_cell:
        cell_inputs += context
    if layer.input_feeding:
        cell_inputs += attention
    return AttentionCellSizes(query, context, attention, cell_inputs, cell_output + context)


def _context_size(attention, query_size, encoder_outputs_shape):
    query = keras.KerasTensor((None, None, query_size))
    shapes = encoder_outputs_shape
    if isinstance(shapes, dict):
        value = {name: keras.KerasTensor(shape) for name, shape in shapes.items()}
    else:
        value = keras.KerasTensor(shapes)
    return attention.compute_output_spec(query, value).shape[-1]
