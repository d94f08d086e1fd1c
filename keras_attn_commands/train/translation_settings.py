"""Settings of `keras-attn train translation`."""

import dataclasses
from pathlib import Path
from typing import Literal

from keras_attn_checks.options import (
    BOOL,
    POSITIVE_INTEGER,
    POSITIVE_NUMBER,
    choice,
)
from keras_attn_commands.train.settings import PATH, SHARE, TEXT, TrainingSettings, setting

Model = Literal["rnn", "transformer"]
Tokenizer = Literal["bpe", "unigram", "char"]
Attention = Literal[
    "none",
    "bahdanau",
    "luong",
    "multi-head",
    "sparsemax",
    "local",
    "coverage",
    "location-sensitive",
]
Cell = Literal["lstm", "gru"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "relative"]


@dataclasses.dataclass(kw_only=True)
class DataSettings:
    """Data"""

    data: Path | None = setting(
        None,
        PATH,
        "directory with train.SOURCE, train.TARGET, and the same for valid (or val, dev) and test, "
        "plain or .gz; or a file with a tab between source and target in each line. Parts of it "
        "are used for validation and test. Without it, 30,000 dates are generated",
    )
    source: str | None = setting(
        None, TEXT, "suffix of the source files in a directory, such as en", metavar="SOURCE"
    )
    target: str | None = setting(
        None, TEXT, "suffix of the target files in a directory, such as de", metavar="TARGET"
    )
    tokenizer: Tokenizer = setting(
        None, choice(Tokenizer), "kind of the SentencePiece tokenizer", by_data=True
    )
    vocabulary_size: int = setting(
        None, POSITIVE_INTEGER, "number of tokens in each vocabulary", by_data=True
    )
    separate_vocabularies: bool = setting(
        None, BOOL, "train a tokenizer for each side instead of one for both", by_data=True
    )
    max_length: int = setting(
        None, POSITIVE_INTEGER, "tokens of a sentence; longer pairs are left out", by_data=True
    )
    subword_sampling: float = setting(
        None, SHARE, "alpha of subword sampling (bpe: BPE dropout). 0: no sampling", by_data=True
    )


@dataclasses.dataclass(kw_only=True)
class ModelSettings:
    """Model"""

    model: Model = setting("rnn", choice(Model), "kind of encoder and decoder")
    layers: int = setting(None, POSITIVE_INTEGER, "number of layers on each side", by_data=True)
    embedding_dim: int = setting(
        None, POSITIVE_INTEGER, "number of features of an embedding", by_data=True
    )
    dropout: float = setting(None, SHARE, "share of dropped features", by_data=True)
    attention: Attention = setting(None, choice(Attention), "attention of an RNN", by_data=True)
    cell: Cell = setting(None, choice(Cell), "cell of an RNN", by_data=True)
    units: int = setting(None, POSITIVE_INTEGER, "size of an RNN cell", by_data=True)
    input_feeding: bool = setting(
        None, BOOL, "feed the attention vector of an RNN into its next step", by_data=True
    )
    heads: int = setting(None, POSITIVE_INTEGER, "attention heads of a Transformer", by_data=True)
    intermediate_dim: int = setting(
        None, POSITIVE_INTEGER, "feed-forward features of a Transformer", by_data=True
    )
    attention_dropout: float = setting(
        None, SHARE, "share of dropped attention weights of a Transformer", by_data=True
    )
    activation_dropout: float = setting(
        None, SHARE, "share of dropped feed-forward features of a Transformer", by_data=True
    )
    positions: Positions = setting(
        None, choice(Positions), "positions of a Transformer", by_data=True
    )


@dataclasses.dataclass(kw_only=True)
class OptimizerSettings:
    """Optimizer and batches"""

    tokens_per_batch: int = setting(
        None, POSITIVE_INTEGER, "tokens of the longer side in a batch, with padding", by_data=True
    )
    learning_rate: float = setting(
        None, POSITIVE_NUMBER, "highest learning rate of Adam", by_data=True
    )
    beta_2: float = setting(None, SHARE, "decay rate of the second moment of Adam", by_data=True)
    warmup_steps: int = setting(
        None,
        POSITIVE_INTEGER,
        "steps in which the rate rises to its highest value",
        by_data=True,
    )
    decay: float = setting(
        None, SHARE, "share of the steps, at the end, in which the rate falls to 0", by_data=True
    )
    label_smoothing: float = setting(
        None, SHARE, "probability that the loss spreads over all tokens", by_data=True
    )
    average: int = setting(
        None, POSITIVE_INTEGER, "number of last epochs whose weights are averaged", by_data=True
    )
    scheduled_sampling: float = setting(
        0.0, SHARE, "share of target tokens replaced by samples at the end of the training"
    )
    bfloat16: bool = setting(
        False, BOOL, "multiply in bfloat16, on a CPU up to twice as fast with AMX instructions"
    )


@dataclasses.dataclass(kw_only=True)
class SearchSettings:
    """Search and evaluation"""

    beam_width: int = setting(4, POSITIVE_INTEGER, "hypotheses of the beam search")
    length_penalty: float = setting(1.0, POSITIVE_NUMBER, "exponent of the length in the score")
    evaluated: int = setting(
        300, POSITIVE_INTEGER, "number of validation pairs for BLEU and chrF during the training"
    )


@dataclasses.dataclass(kw_only=True)
class TranslationSettings(
    DataSettings, ModelSettings, OptimizerSettings, SearchSettings, TrainingSettings
):
    """Program"""


OF_MODELS = {
    "rnn": ("attention", "cell", "units", "input_feeding"),
    "transformer": (
        "heads",
        "intermediate_dim",
        "attention_dropout",
        "activation_dropout",
        "positions",
    ),
}
"""Dict from the models to the settings that other models do not have."""
MAY_CHANGE = {"data", "average", "bfloat16", "beam_width", "length_penalty", "evaluated"}
"""Settings that may differ when a training is resumed. The data are compared by checksum."""
