"""The input of a functional model that reads the ids of texts."""

from collections.abc import Mapping

import keras
import numpy as np

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._models.vocabulary_side import Side
from keras_attn.export._checks.parity_inputs import PARITY_INPUTS
from keras_attn.export._formats import file_metadata
from keras_attn.export._formats.file_metadata import FunctionalSource
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._types import Arrays, Dimensions, ExportTokenizer
from keras_attn_checks.message import Message

OTHERS = ("mask", "lengths", "token_types")
"""Kinds of the inputs that follow from the ids."""

PADDING_TOLERANCE = 1e-4
"""Maximum change of an output that does not depend on the number of padding ids."""


class TextInput:
    """The ids of texts, an input `(batch, time)`, and the inputs that follow from them.

    Args:
        function: `FunctionalFunction`.
        kinds: Dict from the names of the inputs to their kinds, see `input_kind`.
        dimensions: Dict from the name of each input and output to its axes.
        sample: Dict from the names of the inputs to arrays.
        tokenizer: Tokenizer of the texts.
        max_length: Int, maximum number of ids of a text, or `None`.

    Attributes:
        name: String, name of the input.

    Raises:
        ValueError: If the model reads more than one text, or something else.
    """

    def __init__(
        self,
        function: FunctionalFunction,
        kinds: Mapping[str, str],
        dimensions: Dimensions,
        sample: Arrays,
        tokenizer: ExportTokenizer,
        max_length: int | None,
    ) -> None:
        if not isinstance(tokenizer, ExportTokenizer):
            raise ValueError(
                "Expected tokenizer to be a SentencePieceTokenizer or a HuggingFaceTokenizer. "
                f"Received: type={type(tokenizer).__name__}. Train one with "
                "SentencePieceTokenizer.train, or apply your own tokenizer before you run the file."
            )
        ids = [
            name
            for name, kind in kinds.items()
            if len(function.inputs[name].shape) == 2 and kind not in OTHERS
        ]
        if len(ids) != 1 or set(kinds.values()) - {kinds[ids[0]], *OTHERS}:
            shapes = {name: dimensions[name] for name in kinds}
            raise ValueError(
                "Expected a model with one input of ids (batch, time), and at most a mask, lengths "
                f"and token types, because of the tokenizer. Received: inputs={shapes}. Export the "
                "model without the tokenizer."
            )
        (self.name,) = ids
        self._function, self._tokenizer = function, tokenizer
        self._max_length = max_length
        self._kinds = {**kinds, self.name: "ids"}
        self._has_fixed_length = isinstance(dimensions[self.name][1], int)
        self._ids = sample[self.name]

    def source(self) -> FunctionalSource:
        """Returns the settings of the texts.

        Raises:
            ValueError: If the sample does not contain ids of the tokenizer, padded on the right.
        """
        return FunctionalSource(self._side(), self._tokenizer, self._ignores_padding())

    def _side(self) -> Side:
        """Returns the special ids of a text, which are those of the rows of the sample."""
        tokenizer = self._tokenizer
        size, pad = tokenizer.vocabulary_size, tokenizer.pad_token_id
        rows = [row for row in self._ids.tolist() if set(row) - {pad}]
        if not all(0 <= id_ < size and id_ % 1 == 0 for row in rows for id_ in row):
            raise ValueError(
                Message(
                    f"Expected ids in [0, {size}), the vocabulary of the tokenizer. Received: ",
                    PARITY_INPUTS,
                    f" with ids from {self._ids.min()} to {self._ids.max()}. Encode "
                    "texts with this tokenizer.",
                )
            )
        texts = [self._without_padding(row) for row in rows]
        padded = [row for row in rows if row[0] == pad and tokenizer.start_token_id != pad]
        if padded:
            raise ValueError(
                Message(
                    f"Expected rows padded on the right with the id {pad}. Received: ",
                    PARITY_INPUTS,
                    f" with a row that begins with {padded[0][:4]}. Train and export with "
                    'keras.utils.pad_sequences(..., padding="post").',
                )
            )
        layers = flatten_layers(self._function.model.layers)
        limits = [getattr(layer, "max_source_length", None) for layer in layers]
        add_start = any(text[0] == tokenizer.start_token_id for text in texts)
        add_end = any(text[-1] == tokenizer.end_token_id for text in texts)
        limit = min((each for each in limits if isinstance(each, int)), default=None)
        own = [] if limit is None else [max(1, limit - add_start - add_end)]
        own += [] if self._max_length is None else [self._max_length]
        return Side(
            size,
            pad,
            tokenizer.start_token_id if add_start else None,
            tokenizer.end_token_id if add_end else None,
            add_start,
            add_end,
            min(own, default=None),
            masks_only_trailing_padding=any(
                getattr(layer, "masks_only_trailing_padding", False) for layer in layers
            ),
        )

    def _without_padding(self, row: list[float]) -> list[float]:
        length = len(row)
        while length > 1 and row[length - 1] == self._tokenizer.pad_token_id:
            length -= 1
        return row[:length]

    def _ignores_padding(self) -> bool:
        """Returns whether padding leaves the outputs of the shortest row of the sample as they are.

        If not, as without masks, sentences of different lengths must not share a batch.
        """
        if self._has_fixed_length:
            return True
        text = min(map(self._without_padding, self._ids.tolist()), key=len)
        padding = [self._tokenizer.pad_token_id] * max(1, self._ids.shape[1] - len(text))
        try:
            alone, padded = (self._run(row) for row in (text, [*text, *padding]))
        except Exception:  # the model cannot read a longer row than those of the sample
            return True
        return all(
            np.allclose(alone[name], padded[name], atol=PADDING_TOLERANCE)
            for name in alone
            if alone[name].shape == padded[name].shape
        )

    def _run(self, row: list[float]) -> Arrays:
        """Returns the outputs of Keras for one row of ids."""
        inputs = self._function.inputs
        ids = np.array([row] * (inputs[self.name].shape[0] or 1))
        mask = ids != self._tokenizer.pad_token_id
        arrays = {"ids": ids, "mask": mask, "lengths": mask.sum(axis=1), "token_types": 0 * ids}
        feeds = (arrays[kind].astype(inputs[name].dtype) for name, kind in self._kinds.items())
        return as_arrays(self._function(*feeds))


def input_kind(name: str, tensor: keras.KerasTensor) -> str:
    """Returns the kind of an input of a functional model, see docs/file-format-kinds.md."""
    if len(tensor.shape) == 2 and name.endswith("type_ids"):
        return "token_types"
    if len(tensor.shape) == 2 and (tensor.dtype == "bool" or name.endswith("mask")):
        return "mask"
    if len(tensor.shape) == 1 and "int" in tensor.dtype:
        return "lengths"
    return file_metadata.input_kind(tensor)


def as_arrays(results: Arrays) -> Arrays:
    """Converts the tensors in a dict to NumPy arrays."""
    return {name: np.asarray(value) for name, value in results.items()}
