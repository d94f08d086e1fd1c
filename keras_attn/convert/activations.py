from collections.abc import Callable
from typing import Any

from keras_attn.convert.conversion_error import ConversionError
from keras_attn.convert.settings import Settings

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
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
    if name not in _known(gated):
        raise ConversionError(_message("the activation", f"{name!r}", gated))
    return GATED[ACTIVATIONS[name]] if gated else ACTIVATIONS[name]


def check_activation(settings: Settings, key: str, name: Any, gated: bool = False) -> None:
    """Raises a `ConversionError` if keras_attn does not have an activation.

    Args:
        settings: `Settings` of the file.
        key: String, the key of the activation, for the message.
        name: Name of the activation in transformers.
        gated: Bool, whether it is the activation of a gate. Defaults to `False`.
    """
    if name not in _known(gated):
        found = f"{key}={settings[key]!r}"
        raise ConversionError(_message(f"{key} in {settings.file}", found, gated))


def is_activation(name: str, gated: bool = False) -> Callable[[Any], Any]:
    """Returns a check of `Setting`s: the key `name` must have an activation of keras_attn.

    Args:
        name: String, a key of `config.json`.
        gated: Bool, whether it is the activation of a gate. Defaults to `False`.
    """
    return lambda settings: check_activation(settings, name, settings[name], gated)


def _known(gated):
    """Returns the list of the activations in transformers that can be converted."""
    return [name for name, own in ACTIVATIONS.items() if not gated or own in GATED]


def _message(expected, received, gated):
    return (
        f"Expected {expected} to be {'a gate with ' if gated else ''}one of the activations "
        f"{tuple(_known(gated))}. Received: {received}. Models with this activation cannot be "
        "converted."
    )
