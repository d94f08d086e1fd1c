"""Checks that several training programs need."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_attn_checks.message import Argument, Message


def settings_of_other_models(settings: Any, of_models: Mapping[str, Sequence[str]]) -> set[str]:
    """Returns the settings that the chosen model lacks.

    Args:
        settings: Program settings, with the setting `model`.
        of_models: Dict from the models to the settings that other models lack.
    """
    return {name for model, names in of_models.items() if model != settings.model for name in names}


def reject_settings_of_other_models(settings: Any, of_models: Mapping[str, Sequence[str]]) -> None:
    """Raises a `ValueError` that names all settings that the chosen model lacks."""
    found = {
        name: (model, value)
        for model, names in of_models.items()
        for name in names
        if model != settings.model and (value := getattr(settings, name)) is not None
    }
    if not found:
        return
    received: list[str | Argument] = []
    for name, (_, value) in found.items():
        received += [", ", Argument(name, value)]
    models = {model for model, _ in found.values()}
    remedy = [", or set ", Argument("model", models.pop())] if len(models) == 1 else []
    raise ValueError(
        Message(
            "Expected settings of ",
            Argument("model", settings.model),
            ". Received: ",
            *received[1:],
            f". Remove {'it' if len(found) == 1 else 'them'}",
            *remedy,
            ".",
        )
    )


def check_heads(settings: Any) -> None:
    """Raises a `ValueError` if the heads do not divide the features into even numbers."""
    if settings.embedding_dim % (2 * settings.heads):
        raise ValueError(
            Message(
                "Expected ",
                Argument("embedding_dim"),
                " to be a multiple of twice the heads. Received: ",
                Argument("embedding_dim", settings.embedding_dim),
                ", ",
                Argument("heads", settings.heads),
                ".",
            )
        )
