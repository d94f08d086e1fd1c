import contextlib
import functools


@contextlib.contextmanager
def replace_method(layers, name, function):
    """Replaces a method of layers in a block.

    Args:
        layers: list of layers.
        name: string, the method.
        function: function whose first argument is the layer.
    """
    for layer in layers:
        setattr(layer, name, functools.partial(function, layer))
    try:
        yield
    finally:
        for layer in layers:
            delattr(layer, name)
