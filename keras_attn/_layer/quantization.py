"""Disables the quantization of Keras for models with layers of this package.

`keras.Model.quantize` quantizes every layer that has no sublayers. Layers that do not support
quantization are skipped with a warning. In layers of this package, Keras would quantize only the
inner dense layers, and the saved model could not be loaded. Keras has no method that a layer could
override to prevent this quantization of its sublayers. Therefore this module wraps
`keras.Model.quantize` when the package is imported. Models without layers of this package are not
affected.
"""

import functools
import re

import keras

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._layer.layer import Layer


def refuse_quantization() -> None:
    """Wraps `keras.Model.quantize`. Repeated calls have no effect."""
    original = keras.Model.quantize
    if hasattr(original, "_keras_attn"):
        return

    @functools.wraps(original)
    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        for layer in flatten_layers([self]):
            if isinstance(layer, Layer) and any(
                _is_selected(part, filters) for part in flatten_layers([layer])
            ):
                raise ValueError(
                    "Expected a model without layers of keras_attn, or filters that select none of "
                    f"their parts. Received: model {self.name!r} with {type(layer).__name__} "
                    f"{layer.name!r}, mode={mode!r}, filters={filters!r}. Quantize the model when "
                    'it is exported: export_onnx(..., precision="int8").'
                )
        return original(self, mode=mode, config=config, filters=filters, **kwargs)

    setattr(quantize, "_keras_attn", True)  # noqa: B010
    keras.Model.quantize = quantize


def _is_selected(layer, filters):
    """Returns whether the filters of `keras.Model.quantize` select a layer."""
    if filters is None:
        return True
    if callable(filters):
        return bool(filters(layer))
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
