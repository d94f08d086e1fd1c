from typing import Any

from keras_attn._layer.flatten_layers import flatten_layers


def check_stateless(*layers: Any) -> None:
    """Refuses layers with a state between batches, because an exported file starts each run anew.

    Args:
        layers: Keras layers or models; all nested layers are checked.

    Raises:
        ValueError: If a layer is a recurrent layer with `stateful=True`.
    """
    stateful = [layer.name for layer in flatten_layers(layers) if getattr(layer, "stateful", False)]
    if stateful:
        raise ValueError(
            "Expected layers that keep nothing from one call to the next. Received: stateful=True "
            f"of {stateful}. Make them without it, with the state as input and output of the model."
        )
