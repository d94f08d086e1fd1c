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
    """Creates the fastest Keras layer that runs a cell over a sequence.

    Args:
        cell: Keras cell. For an `LSTMCell` or `GRUCell`, the result is a `keras.layers.LSTM` or
            `GRU`, because these layers have fused kernels. For all other cells, the result is a
            `keras.layers.RNN`.
        share_cell: Bool. If `True`, the layer uses `cell` and its weights. If `False`, the layer
            uses a new cell with the same configuration. Defaults to `False`.
        **kwargs: Arguments for `keras.layers.RNN`.

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
    # Without zero_output_for_mask, Keras returns the previous output at masked steps. On JAX, Keras
    # returns the state instead, which may have a different size than the output.
    return keras.layers.RNN(
        cell, zero_output_for_mask=True, **{"dtype": cell.dtype_policy, **kwargs}
    )
