from typing import Any

from keras_attn._layer.flatten_layers import flatten_layers


def check_stateless(*layers: Any) -> None:
    """Raises an error for stateful layers, because an exported file keeps no state between calls.

    Args:
        layers: Keras layers or models; all nested layers are checked.

    Raises:
        ValueError: If a layer is a recurrent layer with `stateful=True`.
    """
    stateful = [layer.name for layer in flatten_layers(layers) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(
            "Expected layers without a state between calls. Received: stateful=True in the layers "
            f"{stateful}. Set stateful=False, and make the state an input and an output of the "
            "model."
        )
