import contextlib

import keras


@contextlib.contextmanager
def without_cudnn(*layers):
    """Makes recurrent layers trace their portable implementation inside the block.

    `use_cudnn="auto"` is decided while tracing: on a machine with a GPU it would bake an operator
    into the exported graph that no other machine can run.

    Args:
        layers: Keras layers or models; all layers inside them are treated, however deep.
    """
    changed = [layer for layer in _all_layers(layers) if hasattr(layer, "use_cudnn")]
    before = [layer.use_cudnn for layer in changed]
    for layer in changed:
        layer.use_cudnn = False
    try:
        yield
    finally:
        for layer, value in zip(changed, before, strict=True):
            layer.use_cudnn = value


def _all_layers(roots):
    """Every layer reachable through attributes, lists and dictionaries, each once."""
    seen, found, open_values = set(), [], list(roots)
    while open_values:
        value = open_values.pop()
        if id(value) in seen:
            continue
        if isinstance(value, keras.Layer):
            found.append(value)
            open_values.extend(vars(value).values())
        elif isinstance(value, dict):
            open_values.extend(value.values())
        elif isinstance(value, (list, tuple)):
            open_values.extend(value)
        else:
            continue
        seen.add(id(value))
    return found
