"""Low-rank updates (LoRA) in a layer's configuration.

A layer creates its sublayers from its own arguments, so its configuration does not contain theirs.
The outermost layer's configuration therefore lists the settings of all adapted sublayers, by their
attribute path:

    {"lora": {"blocks.0.self_attention": {"rank": 8, "lora_alpha": 8.0, "kernels": ["query"]}}}
"""

import collections
from collections.abc import Iterator
from typing import Any

import keras

LORA = "lora"
"""Key for the settings in a layer's configuration."""


def low_rank_settings(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the settings of the low-rank updates in a layer and its sublayers.

    Args:
        layer: Keras layer.

    Returns:
        Dict from each adapted layer's path to the arguments for its method `enable_lora`. The
        path of `layer` itself is `""`. Empty without updates.
    """
    return {
        path: {
            "rank": sublayer.lora_rank,
            "lora_alpha": sublayer.lora_alpha,
            "kernels": list(sublayer.lora_kernels),
        }
        for path, sublayer in _sublayers(layer)
        if getattr(sublayer, "lora_kernels", ())
    }


def enable_low_rank_updates(layer: Any, settings: dict[str, Any]) -> None:
    """Adds the updates that `low_rank_settings` returned to a built layer.

    A layer that already has updates keeps them: a part that was created from its own configuration.

    Args:
        layer: Built Keras layer.
        settings: Dict, see `low_rank_settings`.

    Raises:
        ValueError: If the layer has no sublayer at a path, or the settings are invalid.
    """
    layers: dict[str, Any] = dict(_sublayers(layer))
    for path, arguments in settings.items():
        if not hasattr(layers.get(path), "lora_kernels"):
            raise ValueError(
                f"Expected {LORA} with paths of layers that can have low-rank updates. Received: "
                f"{LORA}={settings!r} for {type(layer).__name__} {layer.name!r}, which has no such "
                f"layer {path!r}."
            )
        if not layers[path].lora_kernels:
            layers[path].enable_lora(**arguments)


def _sublayers(root: keras.layers.Layer) -> Iterator[tuple[str, Any]]:
    """Yields the layers that are reachable through public attributes, lists and dicts.

    Each layer occurs once, with its shortest path.
    """
    seen, queue = set(), collections.deque([("", root)])
    while queue:
        path, value = queue.popleft()
        if isinstance(value, keras.Layer):
            items = [(name, attribute) for name, attribute in vars(value).items() if name[0] != "_"]
        elif isinstance(value, dict):
            items = list(value.items())
        elif isinstance(value, list | tuple):
            items = list(enumerate(value))
        else:
            continue
        if id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, keras.Layer):
                yield path, value
            queue.extend((f"{path}.{name}".lstrip("."), attribute) for name, attribute in items)
