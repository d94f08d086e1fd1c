"""Inputs and outputs in a TensorFlow Lite (LiteRT) file."""

import collections
import math
import struct
from dataclasses import dataclass, field
from typing import Self

from keras_attn_runtime._errors import ModelFileError
from keras_attn_runtime._file_info.precision import lowest_precision
from keras_attn_runtime._file_info.tensor_value import Signatures, TensorValue

DTYPES = dict(
    enumerate(
        """
        float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128
        uint64 resource variant uint32 uint16 int4 bfloat16
        """.split()
    )
)
"""`TensorType` in the TensorFlow Lite schema."""

# Numbers of fields in the TensorFlow Lite schema.
_MODEL_SUBGRAPHS, _MODEL_DESCRIPTION, _MODEL_BUFFERS = 2, 3, 4
_MODEL_METADATA, _MODEL_SIGNATURES = 6, 7
_SUBGRAPH_TENSORS, _SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS = 0, 1, 2
_TENSOR_SHAPE, _TENSOR_TYPE, _TENSOR_BUFFER, _TENSOR_NAME, _TENSOR_SHAPE_SIGNATURE = 0, 1, 2, 3, 7
_BUFFER_DATA, _BUFFER_OFFSET = 0, 1
_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS, _SIGNATURE_KEY, _SIGNATURE_SUBGRAPH = 0, 1, 2, 4
_MAP_NAME, _MAP_TENSOR = 0, 1
_METADATA_NAME = 0


@dataclass
class TfliteFile:
    """The content of a TensorFlow Lite file, without its operators.

    Attributes:
        signatures: dict from each signature's name to `(inputs, outputs)`, two lists of
            `TensorValue`. For a file without signatures, the key "" contains the model's inputs and
            outputs.
        description: string, may be empty.
        metadata: list of strings, metadata buffer names.
        num_weights: `collections.Counter` of elements by dtype, over all subgraphs.
        matrix_dtypes: set of dtypes, for weights with at least two axes.
    """

    signatures: Signatures = field(default_factory=Signatures)
    description: str = ""
    metadata: list[str] = field(default_factory=list[str])
    num_weights: collections.Counter[str] = field(default_factory=collections.Counter[str])
    matrix_dtypes: set[str] = field(default_factory=set[str])

    @property
    def precision(self) -> str | None:
        """The lowest matrix precision, such as "int8"; `None` without matrices."""
        return lowest_precision(self.matrix_dtypes)

    @classmethod
    def from_bytes(cls, content: memoryview) -> Self:
        """Reads a serialized `Model` in the TensorFlow Lite schema.

        Args:
            content: memoryview of bytes.

        Raises:
            ModelFileError: if the bytes are not a TensorFlow Lite model.
        """
        try:
            return cls._from_root(_Table(content, _integer("<I", content, 0)))
        except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
            raise ModelFileError(
                f"Expected an undamaged TensorFlow Lite file. Received: {error}. Copy or export it "
                "again."
            ) from error

    @classmethod
    def _from_root(cls, model: "_Table") -> Self:
        subgraphs = model.tables(_MODEL_SUBGRAPHS)
        signatures: Signatures = {}
        for signature in model.tables(_MODEL_SIGNATURES):
            tensors = subgraphs[signature.number(_SIGNATURE_SUBGRAPH, "<I")].tables(
                _SUBGRAPH_TENSORS
            )
            inputs, outputs = (
                [
                    _value(tensors[entry.number(_MAP_TENSOR, "<I")], entry.text(_MAP_NAME))
                    for entry in signature.tables(values)
                ]
                for values in (_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS)
            )
            signatures[signature.text(_SIGNATURE_KEY)] = inputs, outputs
        if not signatures:
            tensors = subgraphs[0].tables(_SUBGRAPH_TENSORS)
            inputs, outputs = (
                [_value(tensors[index]) for index in subgraphs[0].numbers(values)]
                for values in (_SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS)
            )
            signatures[""] = inputs, outputs
        names = [entry.text(_METADATA_NAME) for entry in model.tables(_MODEL_METADATA)]
        file = cls(signatures, model.text(_MODEL_DESCRIPTION), names)
        file._count_weights(model.tables(_MODEL_BUFFERS), subgraphs)
        return file

    def _count_weights(self, buffers: "list[_Table]", subgraphs: "list[_Table]") -> None:
        """Counts the elements in tensors with data; a shared buffer is counted once."""
        seen: set[int] = set()
        for tensor in (table for graph in subgraphs for table in graph.tables(_SUBGRAPH_TENSORS)):
            index = tensor.number(_TENSOR_BUFFER, "<I")
            if index in seen or not buffers[index].has_data():
                continue
            seen.add(index)
            dtype, shape = _dtype(tensor), tensor.numbers(_TENSOR_SHAPE)
            self.num_weights[dtype] += math.prod(shape)
            if len(shape) > 1:
                self.matrix_dtypes.add(dtype)


class _Table:
    """A table in a FlatBuffer."""

    def __init__(self, content: memoryview, position: int) -> None:
        self._content = content
        self._position = position

    def number(self, field: int, form: str, default: int = 0) -> int:
        """Returns the integer in a field; `form` is its `struct` format."""
        position = self._find(field)
        return default if position is None else _integer(form, self._content, position)

    def text(self, field: int) -> str:
        """Returns a field's string; "" if it is missing."""
        begin, size = self._vector(field)
        return bytes(self._content[begin : begin + size]).decode()

    def has_data(self) -> bool:
        """Returns whether a buffer has data, in the FlatBuffer or (in large files) after it."""
        return self._vector(_BUFFER_DATA)[1] > 0 or self.number(_BUFFER_OFFSET, "<Q") > 1

    def numbers(self, field: int) -> list[int]:
        """Returns a field's list of int32; [] if it is missing."""
        begin, size = self._vector(field)
        return list(struct.unpack_from(f"<{size}i", self._content, begin))

    def tables(self, field: int) -> "list[_Table]":
        """Returns a field's list of tables; [] if it is missing."""
        begin, size = self._vector(field)
        if begin + 4 * size > len(self._content):
            raise IndexError("a list that ends after the file")
        starts = range(begin, begin + 4 * size, 4)
        return [_Table(self._content, start + self._unsigned(start)) for start in starts]

    def _vector(self, field: int) -> tuple[int, int]:
        """Returns the offset of the first element in a vector or string, and its length."""
        position = self._find(field)
        if position is None:
            return 0, 0
        position += self._unsigned(position)
        return position + 4, self._unsigned(position)

    def _find(self, field: int) -> int | None:
        """Returns a field's offset, or `None` if it has its default."""
        vtable = self._position - _integer("<i", self._content, self._position)
        if vtable < 0:
            raise IndexError("a table without fields")
        if 4 + 2 * field >= _integer("<H", self._content, vtable):
            return None
        offset = _integer("<H", self._content, vtable + 4 + 2 * field)
        return self._position + offset if offset else None

    def _unsigned(self, position: int) -> int:
        return _integer("<I", self._content, position)


def _integer(form: str, content: memoryview, position: int) -> int:
    """Returns the integer at a position; `form` is its `struct` format."""
    return struct.unpack_from(form, content, position)[0]


def _value(tensor: _Table, name: str | None = None) -> TensorValue:
    # `shape_signature` has -1 for dynamic axes; a tensor without dynamic axes has only `shape`.
    shape = tensor.numbers(_TENSOR_SHAPE_SIGNATURE) or tensor.numbers(_TENSOR_SHAPE)
    return TensorValue(
        name or tensor.text(_TENSOR_NAME),
        _dtype(tensor),
        tuple(None if size < 0 else size for size in shape),
    )


def _dtype(tensor: _Table) -> str:
    number = tensor.number(_TENSOR_TYPE, "<b")
    return DTYPES.get(number, f"dtype {number}")
