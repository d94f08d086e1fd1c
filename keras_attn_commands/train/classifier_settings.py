"""Settings of `keras-attn train classifier`."""

import dataclasses
from pathlib import Path
from typing import Literal

from keras_attn_checks.options import NONNEGATIVE_INTEGER as STEPS
from keras_attn_checks.options import POSITIVE_INTEGER, POSITIVE_NUMBER, choice
from keras_attn_commands.train.settings import PATH, SHARE, TEXT, TrainingSettings, setting

Model = Literal["rnn", "transformer"]
Tokenizer = Literal["bpe", "unigram", "char"]


@dataclasses.dataclass(kw_only=True)
class DataSettings:
    """Data"""

    data: Path | None = setting(
        None,
        PATH,
        "table with a label and a text in each line, .csv or separated by tabs; or directory of "
        "tables train.tsv, valid.tsv and test.tsv (or .csv); or directory with a text file "
        "train.LABEL for each label, and the same for valid and test. All plain or .gz. Parts of "
        "the training data are used for validation and test without files. Without it, 4,000 film "
        "reviews are generated",
    )
    label_column: str = setting(
        "label", TEXT, "header of the labels in a table. Without a header: the first column"
    )
    text_column: str = setting(
        "text", TEXT, "header of the texts in a table. Without a header: the second column"
    )
    tokenizer: Tokenizer = setting("bpe", choice(Tokenizer), "kind of the SentencePiece tokenizer")
    vocabulary_size: int = setting(
        None, POSITIVE_INTEGER, "number of tokens in the vocabulary", by_data=True
    )
    max_length: int = setting(512, POSITIVE_INTEGER, "tokens of a text; longer texts are cut")


@dataclasses.dataclass(kw_only=True)
class ModelSettings:
    """Model"""

    model: Model = setting(
        "rnn", choice(Model), "kind of the encoder, whose outputs are pooled by attention"
    )
    layers: int = setting(None, POSITIVE_INTEGER, "number of layers", by_data=True)
    embedding_dim: int = setting(
        None, POSITIVE_INTEGER, "number of features of an embedding", by_data=True
    )
    dropout: float = setting(None, SHARE, "share of dropped features", by_data=True)
    units: int = setting(
        None, POSITIVE_INTEGER, "size of an LSTM cell in each direction", by_data=True
    )
    heads: int = setting(None, POSITIVE_INTEGER, "attention heads of a Transformer", by_data=True)


@dataclasses.dataclass(kw_only=True)
class OptimizerSettings:
    """Optimizer and batches"""

    batch_size: int = setting(None, POSITIVE_INTEGER, "number of texts in a batch", by_data=True)
    learning_rate: float = setting(
        None, POSITIVE_NUMBER, "highest learning rate of Adam", by_data=True
    )
    warmup_steps: int = setting(
        None, STEPS, "steps in which the rate rises to its highest value", by_data=True
    )


@dataclasses.dataclass(kw_only=True)
class ClassifierSettings(DataSettings, ModelSettings, OptimizerSettings, TrainingSettings):
    """Program"""


OF_MODELS = {"rnn": ("units",), "transformer": ("heads",)}
"""Dict from the models to the settings that other models do not have."""
MAY_CHANGE = {"data", "label_column", "text_column"}
"""Settings that may differ when a training is resumed. The texts are compared by checksum."""
