from typing import Any

import keras

from keras_attn._serialization.layer_template import (
    LayerTemplate,
    restore_objects,
    serialize_without_warning,
)

FUSED = {keras.layers.LSTMCell: keras.layers.LSTM, keras.layers.GRUCell: keras.layers.GRU}


def recurrent_layer(
    cell: keras.layers.Layer, share_cell: bool = False, **kwargs: Any
) -> keras.layers.RNN:
    """A layer that loops a cell over a sequence, the fastest that Keras has for it.

    Args:
        cell: a Keras cell. An `LSTMCell` or `GRUCell` gives `keras.layers.LSTM` or `GRU`, which
            have fused kernels; any other cell gives `keras.layers.RNN`.
        share_cell: bool, whether the layer loops this very cell, with its weights. Default `False`:
            the cell is a template, and the layer loops a new one like it.
        **kwargs: arguments of `keras.layers.RNN`.

    Returns:
        A `keras.layers.RNN`.
    """
    if type(cell) in FUSED:
        config = serialize_without_warning(cell)
        restore_objects(config, cell)
        config = {key: value for key, value in config["config"].items() if key != "name"}
        layer = FUSED[type(cell)].from_config({**config, **kwargs})
        if share_cell:
            layer.cell = cell
        return layer
    if not share_cell:
        dtype = {"dtype": kwargs["dtype"]} if "dtype" in kwargs else {}
        cell = LayerTemplate(cell).new_layer(**dtype)
    # JAX would take the state for the output at masked steps, which may be of another size.
    return keras.layers.RNN(
        cell, zero_output_for_mask=True, **{"dtype": cell.dtype_policy, **kwargs}
    )
