"""Types of arguments and results that the modules of the exporter share."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from keras_attn.text._hugging_face_tokenizer import HuggingFaceTokenizer
from keras_attn.text._sentencepiece_tokenizer import SentencePieceTokenizer

ExportTokenizer: TypeAlias = SentencePieceTokenizer | HuggingFaceTokenizer
"""Tokenizer that a file can contain."""

ParityInputs: TypeAlias = npt.ArrayLike | Mapping[str, object] | Sequence[npt.ArrayLike]
"""Arrays for the comparison with Keras: an array, a list of arrays, or a (nested) dict of arrays by
the names of the inputs."""

Arrays: TypeAlias = dict[str, np.ndarray]
"""Arrays by the names of inputs or outputs."""

Run: TypeAlias = Callable[..., Arrays]
"""Function that runs a model. It takes the inputs as keyword arguments."""

Axes: TypeAlias = tuple[int | str, ...]
"""Size of each axis of a tensor, or the name of an axis of dynamic size."""

Dimensions: TypeAlias = Mapping[str, Axes]
"""Axes by the names of inputs and outputs."""

Metadata: TypeAlias = dict[str, str]
"""Entries of the metadata of a file."""
