"""Settings of `keras-attn train captions`."""

import dataclasses
from pathlib import Path
from typing import Literal

from keras_attn_checks.options import NONNEGATIVE_NUMBER, POSITIVE_INTEGER, POSITIVE_NUMBER, choice
from keras_attn_commands.train.settings import PATH, SHARE, TrainingSettings, setting

Encoder = Literal["cnn", "patches"]
Decoder = Literal["rnn", "transformer"]


@dataclasses.dataclass(kw_only=True)
class ImageSettings:
    """Images and captions"""

    data: Path | None = setting(
        None,
        PATH,
        "directory with train/images/ and a file train/captions.LANGUAGE, with a line for each "
        "image in the order of the sorted file names, for each language; and the same in valid/ "
        "(otherwise a twentieth of the training images is held out) and test/. Without it, 20,000 "
        "images of shapes are generated",
        metavar="DIR",
    )
    size: int = setting(
        None, POSITIVE_INTEGER, "height and width of the images in pixels", by_data=True
    )
    vocabulary_size: int = setting(
        None, POSITIVE_INTEGER, "number of tokens in the vocabulary", by_data=True
    )


@dataclasses.dataclass(kw_only=True)
class ModelSettings:
    """Model"""

    encoder: Encoder = setting(
        "cnn", choice(Encoder), "convolutions, or a vision Transformer that reads patches"
    )
    decoder: Decoder = setting("rnn", choice(Decoder), "LSTM with attention, or Transformer")
    halvings: int = setting(
        None,
        POSITIVE_INTEGER,
        "number of halvings of the size, each by a convolution: the decoder attends to a grid of "
        "size / 2**N positions on each side. A patch has 2**N pixels on each side",
        by_data=True,
    )
    features: int = setting(96, POSITIVE_INTEGER, "number of features of a position")
    units: int = setting(192, POSITIVE_INTEGER, "size of the LSTM")
    layers: int = setting(3, POSITIVE_INTEGER, "number of layers of a Transformer")
    heads: int = setting(4, POSITIVE_INTEGER, "attention heads of a Transformer")
    dropout: float = setting(None, SHARE, "share of dropped features", by_data=True)
    coverage: float = setting(
        None,
        NONNEGATIVE_NUMBER,
        "weight of the doubly stochastic loss of the LSTM, for positions that no word attends to",
        by_data=True,
    )


@dataclasses.dataclass(kw_only=True)
class OptimizerSettings:
    """Optimizer and batches"""

    batch_size: int = setting(None, POSITIVE_INTEGER, "number of captions in a batch", by_data=True)
    learning_rate: float = setting(2e-3, POSITIVE_NUMBER, "highest learning rate of Adam")


@dataclasses.dataclass(kw_only=True)
class SearchSettings:
    """Search and evaluation"""

    beam_width: int = setting(4, POSITIVE_INTEGER, "hypotheses of the beam search")
    evaluated: int = setting(1000, POSITIVE_INTEGER, "largest number of images in the evaluation")


@dataclasses.dataclass(kw_only=True)
class CaptionSettings(
    ImageSettings, ModelSettings, OptimizerSettings, SearchSettings, TrainingSettings
):
    """Program"""


MAY_CHANGE = {"data", "evaluated"}
"""Settings that may differ when a training is resumed. The data are compared by checksum."""
