"""What a program needs to run a functional model: its inputs and outputs, tokenizer and labels."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_attn._layer.flatten_layers import flatten_layers
from keras_attn._models.side import Side
from keras_attn.export._checks.parity_inputs import PARITY_INPUTS
from keras_attn.export._formats.file_metadata import (
    FunctionalSource,
    OutputClasses,
    describe_functional,
    input_kind,
)
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._types import Arrays, Dimensions, ExportTokenizer, Metadata
from keras_attn_checks.export_options import FunctionalOnnxOptions
from keras_attn_checks.message import Message

Batches: TypeAlias = Sequence[tuple[list[np.ndarray], Arrays]]
"""Pairs of a list of input arrays, and a dict of the outputs of Keras."""

OTHERS = ("mask", "lengths", "token_types")
"""Kinds of the inputs that follow from the ids."""

PADDING_TOLERANCE = 1e-4
"""Maximum change of an output that does not depend on the number of padding ids."""


class FunctionalMetadata:
    """The metadata of an exported functional model.

    Args:
        function: `FunctionalFunction`.
        dimensions: Dict from the name of each input and output to its axes.
        batches: List of pairs (arrays, results of Keras). The first pair is the sample.
        options: `FunctionalOnnxOptions`.

    Raises:
        ValueError: If the model, the sample, the tokenizer and the labels do not fit together.
    """

    def __init__(
        self,
        function: FunctionalFunction,
        dimensions: Dimensions,
        batches: Batches,
        options: FunctionalOnnxOptions,
    ) -> None:
        self._function, self._dimensions = function, dimensions
        self._batches = [
            (dict(zip(function.inputs, arrays, strict=True)), _numpy(results))
            for arrays, results in batches
        ]
        self._kinds = {name: _kind(name, each) for name, each in function.inputs.items()}
        self._tokenizer = options.tokenizer
        self._ids = None if self._tokenizer is None else self._ids_input(self._tokenizer)
        self._classes = None if options.labels is None else self._class_output(options.labels)

    def describe(self) -> Metadata:
        """Returns the metadata of the exported file."""
        tensors = {**self._function.inputs, **self._function.outputs}
        described = {
            name: {"dtype": each.dtype, "shape": list(self._dimensions[name])}
            for name, each in tensors.items()
        }
        source = None
        if self._tokenizer is not None:
            source = FunctionalSource(
                self._side(self._tokenizer), self._tokenizer, self._ignores_padding()
            )
        return describe_functional(
            {name: {"kind": kind, **described[name]} for name, kind in self._kinds.items()},
            {name: described[name] for name in self._function.outputs},
            source,
            self._classes,
            self._attention(),
        )

    def _ids_input(self, tokenizer: ExportTokenizer) -> str:
        """Returns the name of the input of ids. Sets its kind, which Keras may declare as float."""
        if not isinstance(tokenizer, ExportTokenizer):
            raise ValueError(
                "Expected tokenizer to be a SentencePieceTokenizer or a HuggingFaceTokenizer. "
                f"Received: type={type(tokenizer).__name__}. Train one with "
                "SentencePieceTokenizer.train, or apply your own tokenizer before you run the file."
            )
        ids = [
            name
            for name, kind in self._kinds.items()
            if len(self._function.inputs[name].shape) == 2 and kind not in OTHERS
        ]
        if len(ids) != 1 or set(self._kinds.values()) - {self._kinds[ids[0]], *OTHERS}:
            shapes = {name: self._dimensions[name] for name in self._kinds}
            raise ValueError(
                "Expected a model with one input of ids (batch, time), and at most a mask, lengths "
                f"and token types, because of the tokenizer. Received: inputs={shapes}. Export the "
                "model without the tokenizer."
            )
        self._kinds[ids[0]] = "ids"
        return ids[0]

    def _side(self, tokenizer: ExportTokenizer) -> Side:
        """Returns the special ids of a text, which are those of the rows of the sample."""
        size, pad = tokenizer.vocabulary_size, tokenizer.pad_token_id
        rows = [row for row in self._sample_ids.tolist() if set(row) - {pad}]
        if not all(0 <= id_ < size and id_ % 1 == 0 for row in rows for id_ in row):
            raise ValueError(
                Message(
                    f"Expected ids in [0, {size}), the vocabulary of the tokenizer. Received: ",
                    PARITY_INPUTS,
                    f" with ids from {self._sample_ids.min()} to {self._sample_ids.max()}. Encode "
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
        return Side(
            size,
            pad,
            tokenizer.start_token_id if add_start else None,
            tokenizer.end_token_id if add_end else None,
            add_start,
            add_end,
            None if limit is None else max(1, limit - add_start - add_end),
            masks_only_trailing_padding=any(
                getattr(layer, "masks_only_trailing_padding", False) for layer in layers
            ),
        )

    @property
    def _sample_ids(self) -> np.ndarray:
        return self._batches[0][0][self._ids]

    def _without_padding(self, row: list[float]) -> list[float]:
        length = len(row)
        while length > 1 and row[length - 1] == self._tokenizer.pad_token_id:
            length -= 1
        return row[:length]

    def _ignores_padding(self) -> bool:
        """Returns whether padding leaves the outputs of the shortest row of the sample as they are.

        If not, as without masks, sentences of different lengths must not share a batch.
        """
        if isinstance(self._dimensions[self._ids][1], int):
            return True  # each row has the same length
        text = min(map(self._without_padding, self._sample_ids.tolist()), key=len)
        padding = [self._tokenizer.pad_token_id] * max(1, self._sample_ids.shape[1] - len(text))
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
        ids = np.array([row] * (inputs[self._ids].shape[0] or 1))
        mask = ids != self._tokenizer.pad_token_id
        arrays = {"ids": ids, "mask": mask, "lengths": mask.sum(axis=1), "token_types": 0 * ids}
        feeds = (arrays[kind].astype(inputs[name].dtype) for name, kind in self._kinds.items())
        return _numpy(self._function(*feeds))

    def _class_output(self, labels: Sequence[str]) -> OutputClasses:
        is_list = isinstance(labels, Sequence) and not isinstance(labels, str)
        if not is_list or len(labels) < 2 or not all(isinstance(each, str) for each in labels):
            raise ValueError(
                f"Expected labels to be a list of at least two names. Received: labels={labels!r}."
            )
        if len(set(labels)) != len(labels):
            raise ValueError(f"Expected different labels. Received: labels={labels!r}.")
        shapes = [("batch", len(labels)), *([("batch", 1)] if len(labels) == 2 else [])]
        found = [name for name in self._function.outputs if self._free_rows(name) in shapes]
        if len(found) != 1:
            outputs = {name: self._dimensions[name] for name in self._function.outputs}
            raise ValueError(
                f"Expected one output of shape (batch, {len(labels)}), with a column for each of "
                f"the {len(labels)} labels. Received: outputs={outputs}. Change the labels or the "
                "outputs of the model."
            )
        activation = "none"
        if self._has_logits(found[0]):
            activation = "sigmoid" if self._dimensions[found[0]][1] == 1 else "softmax"
        return OutputClasses(found[0], [*labels], activation)

    def _free_rows(self, name: str) -> tuple[int | str, ...]:
        """Returns the axes of an output, with the first axis as in a file of any batch size."""
        return ("batch", *self._dimensions[name][1:])

    def _has_logits(self, output: str) -> bool:
        model = self._function.model
        layer_name = model.output_names[list(self._function.outputs).index(output)]
        names = {layer.name: layer for layer in model.layers}
        if getattr(names.get(layer_name), "activation", None) is keras.activations.linear:
            return True
        return not all(
            ((0 <= results[output]) & (results[output] <= 1)).all() for _, results in self._batches
        )

    def _attention(self) -> str | None:
        """Returns the name of the output with weights over the ids, or `None`."""
        names = (name for name in self._weights_over_ids() if name != self._class_name)
        return next(names, None)

    @property
    def _class_name(self) -> str | None:
        return None if self._classes is None else self._classes.output

    def _weights_over_ids(self) -> Iterator[str]:
        if self._ids is None:
            return
        for name, tensor in self._function.outputs.items():
            is_fixed = "float" in tensor.dtype and None not in tensor.shape[1:-1]
            if (
                is_fixed
                and 2 <= len(tensor.shape) <= 4
                and all(
                    (results[name].shape[0], results[name].shape[-1]) == arrays[self._ids].shape
                    and ((results[name] >= 0) & (results[name] <= 1.001)).all()
                    for arrays, results in self._batches
                )
            ):
                yield name


def _kind(name: str, tensor: keras.KerasTensor) -> str:
    if len(tensor.shape) == 2 and name.endswith("type_ids"):
        return "token_types"
    if len(tensor.shape) == 2 and (tensor.dtype == "bool" or name.endswith("mask")):
        return "mask"
    if len(tensor.shape) == 1 and "int" in tensor.dtype:
        return "lengths"
    return input_kind(tensor)


def _numpy(results: Arrays) -> Arrays:
    return {name: np.asarray(value) for name, value in results.items()}
