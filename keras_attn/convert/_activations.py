from collections.abc import Callable
from typing import Any

from keras_attn.convert._conversion_error import ConversionError
from keras_attn.convert._settings import Settings

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
"""Dict from activation names in transformers to those in keras_attn."""

GATED = {"gelu_tanh": "geglu", "relu": "reglu", "silu": "swiglu"}
"""Dict from gate activations to gated activations for `FeedForward`."""


def activation(name: Any, gated: bool = False) -> str:
    """Converts an activation name from transformers to keras_attn.

    Args:
        name: String, name in transformers.
        gated: Bool, whether the activation belongs to a gated feed-forward network. Defaults to
            `False`.

    Raises:
        ConversionError: If keras_attn lacks the activation.
    """
    if name not in _supported(gated):
        raise ConversionError(_message("the activation", f"{name!r}", gated))
    return GATED[ACTIVATIONS[name]] if gated else ACTIVATIONS[name]


def check_activation(settings: Settings, key: str, name: Any, gated: bool = False) -> None:
    """Raises a `ConversionError` if keras_attn lacks an activation.

    Args:
        settings: `Settings` read from the file.
        key: String, the activation's key, for the message.
        name: Activation name in transformers.
        gated: Bool, whether the activation belongs to a gate. Defaults to `False`.
    """
    if name not in _supported(gated):
        received = f"{key}={settings[key]!r}"
        raise ConversionError(_message(f"{key} in {settings.file}", received, gated))


def is_activation(name: str, gated: bool = False) -> Callable[[Any], Any]:
    """Returns a `Setting` check that the key `name` contains an activation of keras_attn.

    Args:
        name: String, a `config.json` key.
        gated: Bool, whether the activation belongs to a gate. Defaults to `False`.
    """
    return lambda settings: check_activation(settings, name, settings[name], gated)


def _supported(gated):
    """Returns the activation names in transformers that can be converted."""
    return [name for name, activation in ACTIVATIONS.items() if not gated or activation in GATED]


def _message(expected, received, gated):
    return (
        f"Expected {expected} to be {'a gate with ' if gated else ''}one of the activations "
        f"{tuple(_supported(gated))}. Received: {received}. Models with this activation cannot be "
        "converted."
    )
