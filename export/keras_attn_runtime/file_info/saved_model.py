"""Signatures of a TensorFlow SavedModel."""

from dataclasses import dataclass, field

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_info.protobuf import read_fields, signed, text
from keras_attn_runtime.file_info.tensor_value import TensorValue

DTYPES = {
    **{1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string"},
    **{8: "complex64", 9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16", 18: "complex128"},
    **{19: "float16", 20: "resource", 21: "variant", 22: "uint32", 23: "uint64"},
}
"""`DataType` of TensorFlow."""


@dataclass
class SavedModel:
    """The signatures of `saved_model.pb`.

    Attributes:
        version: string, the release of TensorFlow that wrote it.
        signatures: dict of tuples `(inputs, outputs)` of lists of `TensorValue`, by name.
    """

    version: str = ""
    signatures: dict = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, content):
        """Reads a serialized `SavedModel` message.

        Args:
            content: memoryview of bytes.

        Raises:
            ModelFileError: if the bytes are not a SavedModel.
        """
        model = cls()
        graphs = [value for number, value in read_fields(content) if number == 2]
        if not graphs:
            raise ModelFileError("Expected a SavedModel. Received: a file without a graph.")
        for number, value in read_fields(graphs[0]):
            if number == 1:
                model.version = text(dict(read_fields(value)).get(5, b""))
            elif number == 5:
                entry = dict(read_fields(value))
                model.signatures[text(entry.get(1, b""))] = _read_signature(entry.get(2, b""))
        model.signatures.pop("__saved_model_init_op", None)
        return model


def _read_signature(signature):
    inputs, outputs = [], []
    for number, value in read_fields(signature):
        if number in (1, 2):
            entry = dict(read_fields(value))
            values = inputs if number == 1 else outputs
            values.append(_read_tensor(text(entry.get(1, b"")), entry.get(2, b"")))
        elif number == 4:  # defaults: inputs that a caller may leave out
            name = text(dict(read_fields(value)).get(1, b""))
            inputs[:] = [
                TensorValue(each.name, each.dtype, each.shape, each.optional or each.name == name)
                for each in inputs
            ]
    return sorted(inputs, key=lambda each: each.name), sorted(outputs, key=lambda each: each.name)


def _read_tensor(name, tensor):
    entry = dict(read_fields(tensor))
    dtype = DTYPES.get(entry.get(2), f"dtype {entry.get(2)}")
    shape = []
    for number, value in read_fields(entry.get(3, b"")):
        if number == 2:
            size = signed(dict(read_fields(value)).get(1, 0))
            shape.append(None if size < 0 else size)
        elif number == 3 and value:  # unknown_rank
            return TensorValue(name, dtype, None)
    return TensorValue(name, dtype, tuple(shape))
