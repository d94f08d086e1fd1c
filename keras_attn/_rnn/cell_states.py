"""States of Keras cells and stacked cells."""

from typing import Any

import keras
from keras import ops, tree

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._serialization.plain_lists import plain_lists
from keras_attn._types import Tensor


def state_sizes(cell: Any) -> Any:
    """Returns a cell's state sizes as nested lists."""
    sizes = plain_lists(cell.state_size)
    return [sizes] if isinstance(sizes, int) else sizes


def output_size(cell: Any) -> Any:
    """Returns a cell's output size. Without an attribute `output_size`, see `top_state`."""
    size = getattr(cell, "output_size", None)
    return top_state(cell, cell.state_size) if size is None else size


def top_state(cell: Any, states: Any) -> Any:
    """Returns the first state of a cell, or of the last cell in a stack.

    In Keras, this state is also the output if a cell has no attribute `output_size`.

    Args:
        cell: Keras cell.
        states: The cell's states, or their sizes.
    """
    if isinstance(cell, keras.layers.StackedRNNCells):
        return top_state(cell.cells[-1], states[-1])
    return states[0] if isinstance(states, list | tuple) else states


def zero_states(cell: Any, batch_size: int | Tensor, dtype: Any) -> Any:
    """Returns a cell's initial states: zeros if it has no `get_initial_state`.

    Args:
        cell: Keras cell.
        batch_size: Int or scalar int tensor.
        dtype: String, state dtype for a cell without `get_initial_state`.
    """
    if hasattr(cell, "get_initial_state"):
        return cell.get_initial_state(batch_size=batch_size)
    return [ops.zeros((batch_size, size), dtype=dtype) for size in state_sizes(cell)]


def cast_like(states: Any, zeros: Any) -> Any:
    """Casts states to the dtypes of `zeros`, the cell's initial states."""
    pairs = zip(tree.flatten(states), tree.flatten(zeros), strict=True)
    return tree.pack_sequence_as(states, [ops.cast(leaf, zero.dtype) for leaf, zero in pairs])


def forget_dropout_masks(layer: keras.layers.Layer) -> None:
    """Removes the dropout masks that Keras cells in a layer store for the steps of one sequence."""
    for cell in flatten_layers([layer]):
        if hasattr(cell, "reset_dropout_mask"):
            cell.reset_dropout_mask()
            cell.reset_recurrent_dropout_mask()
