import weakref
from typing import TYPE_CHECKING

import keras

from keras_attn.models.functional_model import functional_model
from keras_attn.models.model_of_parts import encode

if TYPE_CHECKING:
    from keras_attn.models.generation_model import GenerationModel

_MODELS: weakref.WeakKeyDictionary["GenerationModel", keras.Model] = weakref.WeakKeyDictionary()
"""Prefix models by `GenerationModel`, so that each prefix model is compiled only once."""


def prefix_model(model: "GenerationModel") -> keras.Model:
    """Returns a model with an additional input: the prefixes of the search.

    Args:
        model: `GenerationModel`.

    Returns:
        Functional model with the weights and inputs of `model`, and with int32 `prefix_ids` of
        shape `(batch, prefix)`, padded on the right.
    """
    if model not in _MODELS:
        prefix = keras.Input((None,), dtype="int32", name="prefix_ids")
        inputs = {tensor.name: tensor for tensor in model.inputs} | {"prefix_ids": prefix}
        encoded = encode(model.source_encoder, model.source)
        results = model.search(**encoded, prefix_ids=prefix)
        _MODELS[model] = functional_model(inputs, results, f"{model.name}_with_prefix")
    return _MODELS[model]
