"""Settings of `keras-attn train language-model`."""

import dataclasses
from pathlib import Path
from typing import Literal

from keras_attn_checks.message import Argument, Message
from keras_attn_checks.options import BOOL, POSITIVE_INTEGER, POSITIVE_NUMBER, choice
from keras_attn_checks.options import NONNEGATIVE_INTEGER as STEPS
from keras_attn_commands.train.settings import PATH, SHARE, TEXT, TrainingSettings, setting

Tokenizer = Literal["char", "bpe", "unigram"]


@dataclasses.dataclass(kw_only=True)
class TextSettings:
    """Text"""

    data: Path | None = setting(
        None,
        PATH,
        "text file, plain or .gz. Without it, 10,000 sums such as 47+85=132 are generated",
    )
    valid: Path | None = setting(
        None, PATH, "text file for validation. Without it, a twentieth of the text is held out"
    )
    documents: bool = setting(
        False,
        BOOL,
        "blank lines divide the text into documents, and the model learns where a document begins "
        "and ends",
    )
    tokenizer: Tokenizer = setting("char", choice(Tokenizer), "kind of the SentencePiece tokenizer")
    vocabulary_size: int = setting(
        None, POSITIVE_INTEGER, "number of tokens in the vocabulary", by_data=True
    )
    window: int = setting(
        None, POSITIVE_INTEGER, "number of tokens that the model sees at once", by_data=True
    )


@dataclasses.dataclass(kw_only=True)
class ModelSettings:
    """Model"""

    layers: int = setting(None, POSITIVE_INTEGER, "number of Transformer layers", by_data=True)
    embedding_dim: int = setting(
        None, POSITIVE_INTEGER, "number of features, a multiple of the heads", by_data=True
    )
    heads: int = setting(4, POSITIVE_INTEGER, "number of attention heads")
    dropout: float = setting(None, SHARE, "share of dropped features", by_data=True)


@dataclasses.dataclass(kw_only=True)
class OptimizerSettings:
    """Optimizer and batches"""

    batch_size: int = setting(16, POSITIVE_INTEGER, "number of windows in a batch")
    learning_rate: float = setting(4e-3, POSITIVE_NUMBER, "highest learning rate of Adam")
    warmup_steps: int = setting(
        None, STEPS, "steps in which the rate rises to its highest value", by_data=True
    )


@dataclasses.dataclass(kw_only=True)
class SampleSettings:
    """Samples after the training"""

    samples: int = setting(10, POSITIVE_INTEGER, "number of sampled texts")
    sample_length: int = setting(
        None, POSITIVE_INTEGER, "largest number of sampled tokens", by_data=True
    )
    temperature: float = setting(
        0.8, POSITIVE_NUMBER, "temperature of the samples; lower is more predictable"
    )
    prompt: str = setting(None, TEXT, "beginning of the samples", by_data=True)


@dataclasses.dataclass(kw_only=True)
class LanguageModelSettings(
    TextSettings, ModelSettings, OptimizerSettings, SampleSettings, TrainingSettings
):
    """Program"""


MAY_CHANGE = {"data", "valid", "samples", "sample_length", "temperature", "prompt"}
"""Settings that may differ when a training is resumed. The texts are compared by checksum."""


def reject_settings_without_data(settings: LanguageModelSettings) -> None:
    """Raises a `ValueError` for settings of a text, if sums are generated."""
    for name in ("valid", "documents"):
        if settings.data is None and getattr(settings, name):
            given = Argument(name)
            raise ValueError(
                Message(
                    "Expected ",
                    Argument("data"),
                    " with ",
                    given,
                    ". Received: ",
                    Argument("data", None),
                    ". Pass a text file, or remove ",
                    given,
                    ".",
                )
            )
