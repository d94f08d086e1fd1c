import keras

FUSED = {keras.layers.LSTMCell: keras.layers.LSTM, keras.layers.GRUCell: keras.layers.GRU}


def recurrent_layer(cell, **kwargs):
    """A layer that loops a cell over a sequence, the fastest that Keras has for it.

    Args:
        cell: a Keras cell, which the layer loops, with its weights. An `LSTMCell` or `GRUCell`
            gives `keras.layers.LSTM` or `GRU`, which have fused kernels; any other cell gives
            `keras.layers.RNN`.
        **kwargs: arguments of `keras.layers.RNN`.

    Returns:
        A `keras.layers.RNN`.
    """
    if type(cell) in FUSED:
        config = {key: value for key, value in cell.get_config().items() if key != "name"}
        layer = FUSED[type(cell)].from_config({**config, **kwargs})
        layer.cell = cell
        return layer
    # JAX would take the state for the output at masked steps, which may be of another size.
    return keras.layers.RNN(
        cell, zero_output_for_mask=True, **{"dtype": cell.dtype_policy, **kwargs}
    )
