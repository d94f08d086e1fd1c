from collections.abc import Iterable
from typing import Any

import keras


def flatten_layers(roots: Iterable[Any]) -> list[keras.layers.Layer]:
    """Returns all layers that are reachable through attributes, lists and dicts.

    Args:
        roots: Iterable of Keras layers, models, or lists and dicts of layers.

    Returns:
        List of Keras layers, including the roots. Each layer occurs once.
    """
    seen, layers, open_values = set(), [], list(roots)
    while open_values:
        value = open_values.pop()
        if id(value) in seen:
            continue
        if isinstance(value, keras.Layer):
            layers.append(value)
            open_values.extend(vars(value).values())
        elif isinstance(value, dict):
            open_values.extend(value.values())
        elif isinstance(value, (list, tuple)):
            open_values.extend(value)
        else:
            continue
        seen.add(id(value))
    return layers
