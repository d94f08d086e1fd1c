import keras


def recurrent_layer(cell, **kwargs):
    """A layer that loops a new cell like `cell` over a sequence, the fastest that Keras has for it.

    Args:
        cell: a Keras cell, the pattern. An `LSTMCell` or `GRUCell` gives `keras.layers.LSTM` or
            `GRU`, which have fused kernels; any other cell gives `keras.layers.RNN`.
        **kwargs: arguments of `keras.layers.RNN`.

    Returns:
        A `keras.layers.RNN`.
    """
    config = {key: value for key, value in cell.get_config().items() if key != "name"}
    fused = {keras.layers.LSTMCell: keras.layers.LSTM, keras.layers.GRUCell: keras.layers.GRU}
    if type(cell) in fused:
        return fused[type(cell)].from_config({**config, **kwargs})
    # JAX would take the state for the output at masked steps, which may be of another size.
    return keras.layers.RNN(
        type(cell).from_config(config),
        zero_output_for_mask=True,
        dtype=cell.dtype_policy,
        **kwargs,
    )
