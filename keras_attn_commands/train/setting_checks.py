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
    """Raises a `ValueError` for a setting that the chosen model lacks."""
    for model, names in of_models.items():
        for name in names:
            value = getattr(settings, name)
            if model != settings.model and value is not None:
                raise ValueError(
                    Message(
                        "Expected settings of ",
                        Argument("model", settings.model),
                        ". Received: ",
                        Argument(name, value),
                        ". Remove it, or set ",
                        Argument("model", model),
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
