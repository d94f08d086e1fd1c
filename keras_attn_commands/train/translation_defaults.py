"""Defaults of `keras-attn train translation`, which depend on the data."""

import math
from typing import Any

from keras_attn_commands.train.run_files import fill_training_settings
from keras_attn_commands.train.setting_checks import settings_of_other_models
from keras_attn_commands.train.translation_settings import OF_MODELS, TranslationSettings

Choice = tuple[Any, str]
"""Value of a setting, and the reason for it."""

_SMALL, _LARGE = 10_000, 60_000
"""Numbers of training pairs from which a corpus is no longer small, and from which it is large."""

# Settings of generated dates, which are split into characters.
_DATES = {
    "tokenizer": "char",
    "vocabulary_size": 200,
    "separate_vocabularies": True,
    "max_length": 48,
    "subword_sampling": 0.0,
    "label_smoothing": 0.0,
    "tokens_per_batch": 4096,
    "learning_rate": 4e-3,
    "beta_2": 0.999,
    "decay": 0.5,
    "average": 1,
    "embedding_dim": 64,
    "dropout": 0.1,
}
_DATES_BY_MODEL = {
    "rnn": {"units": 96, "layers": 1, "epochs": 5, "warmup_steps": 100},
    "transformer": {
        "intermediate_dim": 128,
        "heads": 4,
        "layers": 2,
        "positions": "sinusoidal",
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
        "epochs": 6,
        "warmup_steps": 200,
    },
}
_RNN = {"attention": "bahdanau", "cell": "lstm", "input_feeding": True}
"""Settings of an RNN for any data."""


def data_defaults(settings: TranslationSettings, num_pairs: int) -> dict[str, Choice]:
    """Returns the settings of the tokenizers for generated dates or for sentences."""
    if settings.data is None:
        names = "tokenizer vocabulary_size separate_vocabularies max_length subword_sampling"
        return {name: (_DATES[name], "characters of dates") for name in names.split()}
    reason = f"{num_pairs:,} pairs"
    # Each token must occur often enough to be learned, so a small corpus has few tokens.
    size = min(8000, max(500, _round(num_pairs / 3)))
    is_bpe = settings.tokenizer in (None, "bpe")
    sampling = 0.02 if settings.model == "transformer" and is_bpe else 0.0
    return {
        "tokenizer": ("bpe", ""),
        "vocabulary_size": (size, reason),
        "separate_vocabularies": (False, "shared embeddings"),
        "max_length": (256, ""),
        "subword_sampling": (sampling, ""),
    }


def training_defaults(
    settings: TranslationSettings, num_pairs: int, steps_of: Any
) -> dict[str, Choice]:
    """Returns the settings of model and training.

    Args:
        settings: `TranslationSettings`, with the settings of `data_defaults`.
        num_pairs: Int, number of training pairs.
        steps_of: Function from `tokens_per_batch` to the number of steps in an epoch.
    """
    if settings.data is None:
        values = _DATES | _DATES_BY_MODEL[settings.model]
        if settings.model == "rnn":
            values |= _RNN
        return {name: (value, "dates") for name, value in values.items()}
    choose = _rnn_defaults if settings.model == "rnn" else _transformer_defaults
    choices = choose(settings, num_pairs)
    tokens_per_batch = settings.tokens_per_batch or choices["tokens_per_batch"][0]
    epochs = settings.epochs or choices["epochs"][0]
    steps = epochs * steps_of(tokens_per_batch)
    most = choices["warmup_steps"][0]
    choices["warmup_steps"] = (
        min(most, max(1, steps // 10)),
        f"at most a tenth of {steps:,} steps",
    )
    return choices


def _rnn_defaults(settings, num_pairs):
    reason = f"{num_pairs:,} pairs"
    if num_pairs < _SMALL:
        sizes = {
            "embedding_dim": 128,
            "units": 128,
            "dropout": 0.3,
            "tokens_per_batch": 256,
            "epochs": min(60, max(12, round(75_000 / num_pairs))),
            "average": 4,
        }
    elif num_pairs < _LARGE:
        sizes = {
            "embedding_dim": 256,
            "units": 256,
            "dropout": 0.4,
            "tokens_per_batch": 2048,
            "epochs": 18,
            "average": 4,
        }
    else:
        sizes = {
            "embedding_dim": 256,
            "units": 256,
            "dropout": 0.2,
            "tokens_per_batch": 2048,
            "epochs": max(3, round(1_000_000 / num_pairs)),
            "average": 3,
        }
    choices = {name: (value, reason) for name, value in sizes.items()}
    shared = _RNN | {
        "layers": 1,
        "learning_rate": 2e-3,
        "beta_2": 0.999,
        "decay": 0.5,
        "label_smoothing": 0.1,
        "warmup_steps": 500,
    }
    if settings.attention == "none":
        # The decoder needs many steps to learn to use the final encoder state.
        shared |= {"dropout": 0.2, "tokens_per_batch": 1024, "epochs": 16, "learning_rate": 1.5e-3}
    return choices | {name: (value, "") for name, value in shared.items()}


def _transformer_defaults(settings, num_pairs):
    epochs = min(100, max(4, round(1_500_000 / num_pairs)))
    tokens = 2048 if num_pairs >= _SMALL else 512
    values = {
        "embedding_dim": 128,
        "intermediate_dim": 256,
        "heads": 4,
        "layers": 4,
        "positions": "relative",
        "dropout": 0.3,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "learning_rate": 5e-3,
        "beta_2": 0.98,
        "warmup_steps": 2000,
        "decay": 0.3,
        "average": 5,
        "label_smoothing": 0.1,
    }
    choices = {name: (value, "") for name, value in values.items()}
    reason = f"{num_pairs:,} pairs"
    return choices | {"epochs": (epochs, reason), "tokens_per_batch": (tokens, reason)}


def fill(settings: TranslationSettings, choices: dict[str, Choice]) -> dict[str, str]:
    """Sets the settings that are `None`. Returns the reasons of these by name."""
    others = settings_of_other_models(settings, OF_MODELS)
    mine = {name: choice for name, choice in choices.items() if name not in others}
    return fill_training_settings(settings, mine)


def _round(number):
    """Rounds to two significant digits."""
    digits = 10 ** max(0, math.floor(math.log10(max(1, number))) - 1)
    return round(number / digits) * digits
