"""Models with additional inputs of the search."""

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_attn._models.functional_model import functional_model
from keras_attn._models.model_of_parts import encode

if TYPE_CHECKING:
    from keras_attn._models.generation_model import GenerationModel

RANKS = {"prefix_ids": 1, "constraint_ids": 3, "token_bias_ids": 1, "token_bias_values": 1}
"""Search inputs and their numbers of axes, without the batch axis."""

DTYPES = {"token_bias_values": "float32"}
"""Types of the search inputs that are not int32."""

_MODELS: weakref.WeakKeyDictionary["GenerationModel", dict[object, keras.Model]] = (
    weakref.WeakKeyDictionary()
)
"""The created models by `GenerationModel`, so that each model is compiled only once."""


def model_with_inputs(
    model: "GenerationModel",
    names: tuple[str, ...],
    constraints_in_order: bool = False,
    word_starts: np.ndarray | None = None,
    rule_inputs: Mapping[str, np.ndarray] | None = None,
) -> keras.Model:
    """Returns a model with additional inputs of the search.

    Args:
        model: `GenerationModel`.
        names: Tuple of names in `RANKS`.
        constraints_in_order: Bool, see `Search`. Defaults to `False`.
        word_starts: Boolean array, see `Search`. Defaults to `None`.
        rule_inputs: Dict of arrays, see `Search`. Defaults to `None`.

    Returns:
        Functional model with the weights and inputs of `model`, and an input of each name.
    """
    from keras_attn._models.with_search import new_search  # it imports this module

    models = _MODELS.setdefault(model, {})
    starts = None if word_starts is None else word_starts.tobytes()
    given = tuple((name, value.tobytes()) for name, value in sorted((rule_inputs or {}).items()))
    key = (names, constraints_in_order, starts, given)
    if key not in models:
        more = {
            name: keras.Input((None,) * RANKS[name], dtype=DTYPES.get(name, "int32"), name=name)
            for name in names
        }
        inputs = {tensor.name: tensor for tensor in model.inputs} | more
        encoded = encode(model.source_encoder, model.source)
        values = {
            **{"constraints_in_order": constraints_in_order, "word_starts": word_starts},
            "rule_inputs": rule_inputs,
        }
        # In a functional model, Keras supports only the number of outputs of a layer's first call.
        search = new_search(model.search) if "constraint_ids" in names else model.search
        results = search(**encoded, **more, **values)
        models[key] = functional_model(inputs, results, f"{model.name}_with_inputs")
    return models[key]
