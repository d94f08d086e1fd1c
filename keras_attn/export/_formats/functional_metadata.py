"""Metadata of functional models: inputs, outputs, labels and the output with attention weights."""

from collections.abc import Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_attn.export._formats.file_metadata import OutputClasses, describe_functional
from keras_attn.export._formats.text_input import TextInput, as_arrays, input_kind
from keras_attn.export._trace.functional_function import FunctionalFunction
from keras_attn.export._types import Arrays, Dimensions, ExportTokenizer, Metadata
from keras_attn_checks.export_options import FunctionalOnnxOptions

Batches: TypeAlias = Sequence[tuple[list[np.ndarray], Arrays]]
"""Pairs of a list of input arrays, and a dict of the outputs of Keras."""


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
            (dict(zip(function.inputs, arrays, strict=True)), as_arrays(results))
            for arrays, results in batches
        ]
        self._kinds = {name: input_kind(name, each) for name, each in function.inputs.items()}
        self._text = None
        if options.tokenizer is not None:
            sample = self._batches[0][0]
            self._text = TextInput(
                function, self._kinds, dimensions, sample, options.tokenizer, options.max_length
            )
            self._kinds[self._text.name] = "ids"  # Keras may declare ids as floats
            self._check_vocabulary(options.tokenizer)
        self._classes = None if options.labels is None else self._class_output(options.labels)

    def describe(self) -> Metadata:
        """Returns the metadata of the exported file."""
        tensors = {**self._function.inputs, **self._function.outputs}
        described = {
            name: {"dtype": each.dtype, "shape": list(self._dimensions[name])}
            for name, each in tensors.items()
        }
        return describe_functional(
            {name: {"kind": kind, **described[name]} for name, kind in self._kinds.items()},
            {name: described[name] for name in self._function.outputs},
            None if self._text is None else self._text.source(),
            self._classes,
            self._attention(),
        )

    def _check_vocabulary(self, tokenizer: ExportTokenizer) -> None:
        """Raises an error for a tokenizer with more ids than the embeddings of the model."""
        layers = self._function.model.layers
        sizes = [each.input_dim for each in layers if isinstance(each, keras.layers.Embedding)]
        if sizes and max(sizes) < tokenizer.vocabulary_size:
            raise ValueError(
                f"Expected a tokenizer with at most {max(sizes)} ids, as many as the embedding of "
                f"the model has. Received: a tokenizer with {tokenizer.vocabulary_size} ids. Pass "
                "the tokenizer with which the model was trained."
            )

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
        if self._text is None:
            return None
        others = (
            name
            for name in self._function.outputs
            if self._classes is None or name != self._classes.output
        )
        return next((name for name in others if self._has_weights(name, self._text.name)), None)

    def _has_weights(self, output: str, ids: str) -> bool:
        """Returns whether an output has the axes `(batch, ..., time)` and numbers in [0, 1]."""
        tensor = self._function.outputs[output]
        if "float" not in tensor.dtype or None in tensor.shape[1:-1] or len(tensor.shape) > 4:
            return False
        pairs = ((arrays[ids], results[output]) for arrays, results in self._batches)
        return all(
            (*values.shape[:1], *values.shape[1:][-1:]) == rows.shape
            and ((values >= 0) & (values <= 1.001)).all()
            for rows, values in pairs
        )
