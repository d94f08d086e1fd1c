import re

import keras

from keras_attn._backend.private_names import metric_directions

_LOWER = ("loss", "perplexity", "crossentropy")
_HIGHER = ("bleu", "accuracy")
"""Ends of names whose direction is known, also if they are not metrics of the model."""


def monitored_direction(model: keras.Model, monitor: str) -> str | None:
    """Returns the direction in which a value in the logs improves.

    As in `keras.callbacks.ModelCheckpoint`, the metric of this name has a direction. Metrics of one
    of several outputs are found by their keys in the logs, such as `val_decoder_accuracy`.

    Args:
        model: Compiled `keras.Model`. Keras creates its metrics before or in the first step.
        monitor: String, key in the logs of an epoch.

    Returns:
        String `"min"` or `"max"`, or `None` if the direction is unknown.
    """
    name = monitor.removeprefix("val_")
    directions = list(metric_directions(model))
    for key in (name, re.sub(r"_\d+$", "", name)):  # Keras numbers metrics of the same name
        found = {direction for each, direction in directions if each == key} - {None}
        if len(found) == 1:
            return "max" if found == {"up"} else "min"
        if found:
            return None
    if name.endswith(_LOWER):
        return "min"
    return "max" if name.endswith(_HIGHER) else None
