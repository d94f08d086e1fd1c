"""Batches of sources for the comparison of an exported search with Keras."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import keras
import numpy as np

from keras_attn.export._checks.dynamic_sizes import (
    batches_of_other_sizes,
    describe_axes,
    resized,
)
from keras_attn.export._checks.parity_inputs import PARITY_INPUTS, arrays_in_order
from keras_attn.export._checks.parity_sentences import SENTENCES, parity_sentences
from keras_attn.export._checks.token_budget import USUAL_SOURCE
from keras_attn.export._trace.search_function import SOURCE_IDS, SearchFunction
from keras_attn.export._types import Arrays, ExportTokenizer, ParityInputs
from keras_attn_checks.export_options import Sentences
from keras_attn_checks.message import Argument, Message

SENTENCES_ARGUMENT = Argument("parity_sentences")

ROWS = 80
"""Minimum number of rows for the comparison of a model with other inputs than ids."""

FIRST_ROWS = 3
"""Number of rows of the batches that test which sizes the encoder can read."""

RANDOM_SIZE, RANDOM_IMAGE_SIZE = 16, 32
"""Sizes of the dynamic axes of random arrays with at most three axes, and with more (images)."""


def parity_sources(
    function: SearchFunction,
    tokenizer: ExportTokenizer | None = None,
    sentences: Sentences | None = None,
    parity_inputs: ParityInputs | None = None,
    count: int = SENTENCES,
) -> "Sources":
    """Returns the sources for the comparison of an export with Keras.

    Args:
        function: `SearchFunction`.
        tokenizer: See `parity_sentences`. Only for a model that reads ids.
        sentences: See `parity_sentences`. Only for a model that reads ids.
        parity_inputs: For a model that does not read ids, arrays as for `model.predict`. If `None`,
            random numbers are used. Defaults to `None`.
        count: Int, minimum number of sentences of a model that reads ids. Defaults to `200`.

    Returns:
        `IdSources` or `ArraySources`.

    Raises:
        ValueError: If the samples do not fit the inputs, or there are no samples and an input is
            not of a float type.
    """
    if function.source is not None:
        if parity_inputs is not None:
            raise ValueError(
                Message(
                    "Expected no ",
                    PARITY_INPUTS,
                    " for a model that reads ids. Received: ",
                    PARITY_INPUTS,
                    f" of type {type(parity_inputs).__name__}. Pass texts or lists of ids as ",
                    SENTENCES_ARGUMENT,
                    ".",
                )
            )
        ids = parity_sentences(function.source, tokenizer, sentences, count)
        num_given = min(len(sentences or []), len(ids))
        return IdSources(ids, function.source.pad_token_id, num_given)
    if sentences is not None:
        raise ValueError(
            Message(
                "Expected ",
                SENTENCES_ARGUMENT,
                " only for a model that reads ids. Received: ",
                SENTENCES_ARGUMENT,
                f" for the inputs {list(function.inputs)}. Pass arrays by these names as ",
                PARITY_INPUTS,
                ".",
            )
        )
    if parity_inputs is None:
        parity_inputs = _random_arrays(function.inputs)
    return ArraySources(function, arrays_in_order(parity_inputs, function.inputs))


class IdSources:
    """Lists of ids, padded on the right.

    Args:
        ids: List of lists of ids, as the encoder reads them.
        pad_token_id: Int, id of padding. Defaults to `0`.
        num_given: Int, number of sources at the start of `ids` that the user passed to the export.
            Defaults to `0`.
    """

    def __init__(
        self, ids: Sequence[Sequence[int]], pad_token_id: int = 0, num_given: int = 0
    ) -> None:
        self.ids = ids
        self.num_given = num_given
        self._pad_token_id = pad_token_id

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: slice, number: int = 0) -> Arrays:
        """Returns the inputs of the encoder.

        Args:
            rows: Slice of the sources.
            number: Int, index of the batch. Ignored; `ArraySources` uses it to select sizes.

        Returns:
            Dict of arrays.
        """
        return {SOURCE_IDS: pad(self.ids[rows], self._pad_token_id)}

    def length(self, rows: slice) -> int:
        """Returns the number of ids of the longest of some sources."""
        return max(map(len, self.ids[rows]))


class ArraySources:
    """Arrays for an encoder with any inputs, in the sizes of the sample and in other sizes.

    Args:
        function: `SearchFunction`.
        arrays: List with an array for each input, all with the same number of rows.

    Raises:
        ValueError: If Keras cannot run the encoder with the sizes of the sample, or fails with all
            other sizes of a dynamic axis.
    """

    num_given = 0
    ids: Sequence[Sequence[int]] = ()

    def __init__(self, function: SearchFunction, arrays: list[np.ndarray]) -> None:
        self._names = list(function.inputs)
        self._arrays = arrays
        first = [array[:FIRST_ROWS] for array in arrays]
        shapes = {name: array.shape for name, array in zip(self._names, arrays, strict=True)}
        try:
            function.encode(*first)
        except Exception as error:
            raise ValueError(
                Message(
                    f"Expected arrays that the encoder can read. Received: shapes {shapes}, for "
                    f"which Keras raises {type(error).__name__}: {error}. Pass ",
                    PARITY_INPUTS,
                    " that fit.",
                )
            ) from error
        batches, failures = batches_of_other_sizes(function.encode, function.inputs, first)
        for axes, reason in failures.items():
            raise ValueError(
                f"Expected an encoder that reads any size of {describe_axes(axes)}, which the "
                f"model does not fix. Received: arrays of shapes {shapes}. {reason}. Create the "
                "GenerationModel with inputs=keras.Input(shape, name=...) of the fixed size."
            )
        more_sizes = [
            {
                (number, axis): size
                for number, array in enumerate(batch)
                for axis, size in enumerate(array.shape)
                if axis > 0
            }
            for batch, _ in batches
        ]
        self._sizes = [{}, *more_sizes]

    def __len__(self) -> int:
        return max(ROWS, len(self._arrays[0]))

    def batch(self, rows: slice, number: int = 0) -> Arrays:
        """Returns the inputs of the encoder.

        Args:
            rows: Slice of the `len(self)` sources. If the sample has fewer rows, its rows are
                repeated.
            number: Int, index of the batch among all batches of the comparison. Batches 0 and 1
                have the sizes of the sample. Each following pair of batches has different sizes of
                the dynamic axes, and after the last of these sizes, the sizes of the sample follow
                again.

        Returns:
            Dict of arrays.
        """
        indices = np.arange(len(self))[rows] % len(self._arrays[0])
        arrays = [array[indices] for array in self._arrays]
        arrays = resized(arrays, self._sizes[number // 2 % len(self._sizes)])
        return dict(zip(self._names, arrays, strict=True))

    def length(self, rows: slice) -> int:
        """Returns a usual length, because arrays have no tokens."""
        return USUAL_SOURCE


Sources: TypeAlias = IdSources | ArraySources


def pad(sentences: Sequence[Sequence[int]], pad_token_id: int = 0) -> np.ndarray:
    """Converts lists of ids to an int32 array `(batch, source)`, padded on the right."""
    batch = np.full((len(sentences), max(map(len, sentences))), pad_token_id, "int32")
    for row, sentence in zip(batch, sentences, strict=True):
        row[: len(sentence)] = sentence
    return batch


def _random_arrays(inputs: Mapping[str, keras.KerasTensor]) -> Arrays:
    """Returns a dict of arrays of random numbers in [0, 1), valid as images and features."""
    whole = [name for name, spec in inputs.items() if "float" not in spec.dtype]
    if whole:
        raise ValueError(
            Message(
                "Expected ",
                PARITY_INPUTS,
                f", because the range of the integer inputs {whole} is unknown. Received: ",
                Argument("parity_inputs", None),
                ". Pass a dict of arrays by the names of the inputs.",
            )
        )
    generator = np.random.default_rng(0)

    def shape(tensor: keras.KerasTensor) -> list[int]:
        size = RANDOM_IMAGE_SIZE if len(tensor.shape) > 3 else RANDOM_SIZE
        return [ROWS, *(size if axis_size is None else axis_size for axis_size in tensor.shape[1:])]

    return {name: generator.random(shape(spec)) for name, spec in inputs.items()}
