from collections.abc import Callable
from typing import Any

from keras_attn.convert.conversion_error import ConversionError

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Dict from the names of activations in transformers to their names in keras_attn."""

GATED = {"gelu_tanh": "geglu", "relu": "reglu", "silu": "swiglu"}
"""Dict from the activation of a gate to the name of the gated activation of `FeedForward`."""


def activation(name: Any, gated: bool = False) -> str:
    """Converts the name of an activation from transformers to keras_attn.

    Args:
        name: String, name in transformers.
        gated: Bool, whether the activation belongs to a gated feed-forward network. Defaults to
            `False`.

    Raises:
        ConversionError: If keras_attn does not have the activation.
    """
    own = ACTIVATIONS.get(name)
    if gated:
        own = GATED.get(str(own))
    if own is None:
        known = [each for each in ACTIVATIONS if not gated or ACTIVATIONS[each] in GATED]
        raise ConversionError(
            f"Expected {'a gate with ' if gated else ''}one of the activations {tuple(known)}. "
            f"Received: {name!r}. Models with this activation cannot be converted."
        )
    return own


def is_activation(name: str, gated: bool = False) -> Callable[[Any], Any]:
    """Returns a check of `Setting`s: the key `name` must have an activation of keras_attn.

    Args:
        name: String, a key of `config.json`.
        gated: Bool, whether it is the activation of a gate. Defaults to `False`.
    """
    return lambda settings: activation(settings[name], gated)
