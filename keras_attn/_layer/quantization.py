import re
from typing import Any

import keras

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer


def check_quantization(model: keras.Model, mode: Any, filters: Any) -> None:
    """Raises a `ValueError` if `keras.Model.quantize` would quantize parts of our layers.

    Keras would quantize only their inner dense layers, and the saved model could not be loaded.

    Args:
        model: `keras.Model`.
        mode: String, such as `"int8"`.
        filters: Argument `filters` of `keras.Model.quantize`.
    """
    for layer in flatten_layers([model]):
        if isinstance(layer, Layer) and any(
            _is_selected(part, filters) for part in flatten_layers([layer])
        ):
            raise ValueError(
                "Expected a model without layers of keras_attn, or filters that select none of "
                f"their parts. Received: model {model.name!r} with {type(layer).__name__} "
                f"{layer.name!r}, mode={mode!r}, filters={filters!r}. Quantize the model when "
                'it is exported: export_onnx(..., precision="int8").'
            )


def _is_selected(layer, filters):
    """Returns whether the filters of `keras.Model.quantize` select a layer."""
    if filters is None:
        return True
    if callable(filters):
        return bool(filters(layer))
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
