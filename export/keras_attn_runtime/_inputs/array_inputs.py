"""Reads inputs other than token ids, such as images, from NumPy arrays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from keras_attn_runtime._array_types import Array, has_masked, is_in_memory, is_scalar_array
from keras_attn_runtime._errors import InputError
from keras_attn_runtime._file_format import Input, Side
from keras_attn_runtime._inputs.source import Source

Rows: TypeAlias = Array | Sequence[npt.ArrayLike]
"""Input rows: an array whose first axis is the batch, or a list of arrays."""


class ArrayReader:
    """Checks arrays and splits them into one `Source` for each row.

    Args:
        inputs: dict from the file's input names to `Input`s.
        source: `Side` of the source, or `None`. Its vocabulary limits the ids in inputs of the kind
            "ids". With `None`, ids are not checked.
    """

    def __init__(self, inputs: Mapping[str, Input], source: Side | None = None) -> None:
        self.inputs = inputs
        self.source = source

    def read(self, arrays: Mapping[str, Rows]) -> Iterator[Source]:
        """Converts each row of the arrays to a `Source`.

        Args:
            arrays: dict from input names to arrays whose first axis is the batch, or to lists of
                arrays without a batch axis, one for each row.

        Returns:
            Iterator over `Source`s.

        Raises:
            ValueError: if `arrays` is not a dict of arrays, the names differ from the inputs, or
                the numbers of rows differ.
            InputError: if a row's dtype or shape differs from the input.
        """
        self._require_mapping(arrays)
        if set(arrays) != set(self.inputs):
            raise ValueError(
                f"Expected arrays for the inputs {sorted(self.inputs)}. "
                f"Received: {sorted(map(str, arrays))}."
            )
        columns = {name: arrays[name] for name in self.inputs}
        for name, column in columns.items():
            _require_rows(name, column)
        counts = {name: len(column) for name, column in columns.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(
                f"Expected the same number of rows for each input. Received: {counts}."
            )
        return self._rows(columns, max(counts.values()))

    def _require_mapping(self, arrays: object) -> None:
        if not isinstance(arrays, Mapping):
            raise ValueError(
                f"Expected a dict of arrays by the names of the inputs, {sorted(self.inputs)}. "
                f"Received: type={type(arrays).__name__}."
            )

    def read_rows(self, rows: Iterable[object]) -> Iterator[Source]:
        """Lazily converts dicts of arrays without a batch axis to `Source`s, see `read`."""
        for index, row in enumerate(rows):
            if not _is_row(row) or set(row) != set(self.inputs):
                received = sorted(map(str, row)) if _is_row(row) else type(row).__name__
                raise InputError(
                    index,
                    f"expected a dict with arrays for the inputs {sorted(self.inputs)}. Received: "
                    f"{received}.",
                )
            yield self._source(index, row)

    def _rows(self, columns: Mapping[str, Rows], count: int) -> Iterator[Source]:
        for index in range(count):
            yield self._source(index, {name: column[index] for name, column in columns.items()})

    def _source(self, index: int, row: Mapping[str, npt.ArrayLike]) -> Source:
        arrays = {name: self._value(index, name, row[name]) for name in self.inputs}
        return Source([], truncated=False, arrays=arrays)

    def _value(self, index: int, name: str, value: npt.ArrayLike) -> Array:
        """Returns one input row as an array with the input's dtype."""
        expected = self.inputs[name]
        if has_masked(value):
            raise InputError(
                index,
                f"expected an array without masked elements for {name!r}. Received: "
                "type=MaskedArray. Fill it with numpy.ma.filled.",
            )
        try:
            array = np.asarray(value)
        except (TypeError, ValueError) as error:
            raise InputError(index, f"expected numbers for {name!r} ({error}).") from error
        if array.dtype.kind not in "biuf" or not np.can_cast(
            array.dtype, expected.dtype, "same_kind"
        ):
            raise InputError(
                index, f"expected {expected.dtype} for {name!r}. Received: dtype={array.dtype}."
            )
        sizes = expected.shape[1:]
        fits = len(sizes) == array.ndim and all(
            isinstance(size, str) or size == given
            for size, given in zip(sizes, array.shape, strict=True)
        )
        if not fits:
            raise InputError(
                index,
                f"expected shape ({', '.join(map(str, sizes))}) for {name!r}. "
                f"Received: shape={array.shape}.",
            )
        if expected.kind == "ids" and self.source is not None and array.size:
            least, most = int(array.min()), int(array.max())
            if least < 0 or most >= self.source.vocabulary_size:
                raise InputError(
                    index,
                    f"expected ids in [0, {self.source.vocabulary_size}) for {name!r}. Received: "
                    f"ids from {least} to {most}.",
                )
        array = array.astype(expected.dtype)
        if expected.kind == "image":
            _require_image(index, name, array)
        return array


def _is_row(value: object) -> TypeGuard[Mapping[str, npt.ArrayLike]]:
    return isinstance(value, Mapping)


def _require_image(index: int, name: str, image: Array) -> None:
    if image.size == 0:
        raise InputError(index, f"expected pixels for {name!r}. Received: shape={image.shape}.")
    is_finite = np.isfinite(image)
    if not is_finite.all():
        raise InputError(
            index, f"expected finite numbers for {name!r}. Received: {image[~is_finite][0]}."
        )


def _require_rows(name: str, values: object) -> None:
    if not is_in_memory(values) or is_scalar_array(values):
        raise ValueError(
            f"Expected the input {name!r} to be an array, or a list of arrays. Received: "
            f"type={type(values).__name__}."
        )
