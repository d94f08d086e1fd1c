"""Inputs and outputs of a TensorFlow Lite (LiteRT) file."""

import struct
from dataclasses import dataclass, field

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_info.tensor_value import TensorValue

IDENTIFIER = b"TFL3"
DTYPES = {
    **{0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 5: "string", 6: "bool"},
    **{7: "int16", 8: "complex64", 9: "int8", 10: "float64", 11: "complex128", 12: "uint64"},
    **{13: "resource", 14: "variant", 15: "uint32", 16: "uint16", 17: "int4", 18: "bfloat16"},
}
"""`TensorType` of the TensorFlow Lite schema."""

# Numbers of fields in the TensorFlow Lite schema.
_MODEL_SUBGRAPHS, _MODEL_DESCRIPTION, _MODEL_METADATA, _MODEL_SIGNATURES = 2, 3, 6, 7
_SUBGRAPH_TENSORS, _SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS = 0, 1, 2
_TENSOR_SHAPE, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_SHAPE_SIGNATURE = 0, 1, 3, 7
_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS, _SIGNATURE_KEY, _SIGNATURE_SUBGRAPH = 0, 1, 2, 4
_MAP_NAME, _MAP_TENSOR = 0, 1
_METADATA_NAME = 0


@dataclass
class TfliteFile:
    """The content of a TensorFlow Lite file, without its operators.

    Attributes:
        signatures: dict of tuples `(inputs, outputs)` of lists of `TensorValue`, by name. A file
            without signatures has one with the name "".
        description: string, perhaps empty.
        metadata: list of strings, names of the metadata buffers.
    """

    signatures: dict = field(default_factory=dict)
    description: str = ""
    metadata: list = field(default_factory=list)

    @classmethod
    def from_bytes(cls, content):
        """Reads a serialized `Model` of the TensorFlow Lite schema.

        Args:
            content: memoryview of bytes.

        Raises:
            ModelFileError: if the bytes are not a TensorFlow Lite model.
        """
        try:
            return cls._from_root(_Table(content, struct.unpack_from("<I", content, 0)[0]))
        except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
            raise ModelFileError(
                f"Expected a TensorFlow Lite file. Received: one that is damaged ({error})."
            ) from error

    @classmethod
    def _from_root(cls, model):
        subgraphs = model.tables(_MODEL_SUBGRAPHS)
        signatures = {}
        for signature in model.tables(_MODEL_SIGNATURES):
            tensors = subgraphs[signature.number(_SIGNATURE_SUBGRAPH, "<I")].tables(
                _SUBGRAPH_TENSORS
            )
            signatures[signature.text(_SIGNATURE_KEY)] = tuple(
                [
                    _value(tensors[each.number(_MAP_TENSOR, "<I")], each.text(_MAP_NAME))
                    for each in signature.tables(values)
                ]
                for values in (_SIGNATURE_INPUTS, _SIGNATURE_OUTPUTS)
            )
        if not signatures:
            tensors = subgraphs[0].tables(_SUBGRAPH_TENSORS)
            signatures[""] = tuple(
                [_value(tensors[index]) for index in subgraphs[0].numbers(values)]
                for values in (_SUBGRAPH_INPUTS, _SUBGRAPH_OUTPUTS)
            )
        names = [each.text(_METADATA_NAME) for each in model.tables(_MODEL_METADATA)]
        return cls(signatures, model.text(_MODEL_DESCRIPTION), names)


class _Table:
    """A table of a FlatBuffer."""

    def __init__(self, content, position):
        self._content = content
        self._position = position

    def number(self, field, form, default=0):
        """The scalar of a field, of a `struct` format."""
        position = self._find(field)
        return default if position is None else struct.unpack_from(form, self._content, position)[0]

    def text(self, field):
        """The string of a field; "" if it is missing."""
        begin, size = self._vector(field)
        return bytes(self._content[begin : begin + size]).decode()

    def numbers(self, field):
        """The list of int32 of a field; [] if it is missing."""
        begin, size = self._vector(field)
        return list(struct.unpack_from(f"<{size}i", self._content, begin))

    def tables(self, field):
        """The list of tables of a field; [] if it is missing."""
        begin, size = self._vector(field)
        if begin + 4 * size > len(self._content):
            raise IndexError("a list that ends after the file")
        positions = range(begin, begin + 4 * size, 4)
        return [_Table(self._content, each + self._unsigned(each)) for each in positions]

    def _vector(self, field):
        """Returns the offset of the first element of a vector or string, and its length."""
        position = self._find(field)
        if position is None:
            return 0, 0
        position += self._unsigned(position)
        return position + 4, self._unsigned(position)

    def _find(self, field):
        """Returns the offset of a field, or `None` if it has its default."""
        vtable = self._position - struct.unpack_from("<i", self._content, self._position)[0]
        if vtable < 0:
            raise IndexError("a table without fields")
        if 4 + 2 * field >= struct.unpack_from("<H", self._content, vtable)[0]:
            return None
        offset = struct.unpack_from("<H", self._content, vtable + 4 + 2 * field)[0]
        return self._position + offset if offset else None

    def _unsigned(self, position):
        return struct.unpack_from("<I", self._content, position)[0]


def _value(tensor, name=None):
    dtype = tensor.number(_TENSOR_TYPE, "<b")
    # Dynamic axes are -1 in the second one, which is missing without them.
    shape = tensor.numbers(_TENSOR_SHAPE_SIGNATURE) or tensor.numbers(_TENSOR_SHAPE)
    return TensorValue(
        name or tensor.text(_TENSOR_NAME),
        DTYPES.get(dtype, f"dtype {dtype}"),
        tuple(None if size < 0 else size for size in shape),
    )
