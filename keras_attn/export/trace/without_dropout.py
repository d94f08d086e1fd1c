import contextlib

from keras_attn._layer.flatten_layers import flatten_layers


@contextlib.contextmanager
def without_dropout(*layers):
    """Sets the dropout rates of recurrent cells to 0 inside the block.

    Keras' recurrent layers draw the dropout masks of their cells in inference too, where the cells
    ignore them. The state of the random generator would become part of the exported graph. Use it
    inside `without_cudnn`, which makes threads that export the same layers wait for each other.

    Args:
        layers: Keras layers or models; all layers inside them are treated, at any depth.
    """
    changed = [layer for layer in flatten_layers(layers) if hasattr(layer, "get_dropout_mask")]
    before = [(cell.dropout, cell.recurrent_dropout) for cell in changed]
    for cell in changed:
        cell.dropout = cell.recurrent_dropout = 0.0
    try:
        yield
    finally:
        for cell, rates in zip(changed, before, strict=True):
            cell.dropout, cell.recurrent_dropout = rates
