import contextlib
import threading

from keras_attn._layer.flatten_layers import flatten_layers

# An export changes the layers of a model while it traces them.
_LOCK = threading.RLock()


@contextlib.contextmanager
def without_cudnn(*layers):
    """Makes recurrent layers trace their portable implementation inside the block.

    `use_cudnn="auto"` is decided while tracing: on a machine with a GPU it would bake an operator
    into the exported graph that no other machine can run. Threads that export take turns: they may
    share layers.

    Args:
        layers: Keras layers or models; all layers inside them are treated, however deep.
    """
    with _LOCK:
        changed = [layer for layer in flatten_layers(layers) if hasattr(layer, "use_cudnn")]
        before = [layer.use_cudnn for layer in changed]
        for layer in changed:
            layer.use_cudnn = False
        try:
            yield
        finally:
            for layer, value in zip(changed, before, strict=True):
                layer.use_cudnn = value
