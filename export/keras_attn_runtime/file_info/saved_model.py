"""Signatures of a TensorFlow SavedModel."""

from dataclasses import dataclass, field
from typing import Self

from keras_attn_runtime.errors import ModelFileError
from keras_attn_runtime.file_info.protobuf import (
    EMPTY,
    Value,
    integer,
    read_fields,
    read_message,
    signed,
    text,
)
from keras_attn_runtime.file_info.tensor_value import Signatures, TensorValue

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
        version: string, version of TensorFlow that wrote the file.
        signatures: dict from the name of each signature to `(inputs, outputs)`, two lists of
            `TensorValue`.
    """

    version: str = ""
    signatures: Signatures = field(default_factory=Signatures)

    @classmethod
    def from_bytes(cls, content: memoryview) -> Self:
        """Reads a serialized `SavedModel` message.

        Args:
            content: memoryview of bytes.

        Raises:
            ModelFileError: if the bytes are not a SavedModel.
        """
        model = cls()
        graphs = [value for number, value in read_fields(content) if number == 2]
        if not graphs:
            raise ModelFileError(
                "Expected a SavedModel with a graph. Received: graphs=[]. Export it again."
            )
        for number, value in read_fields(graphs[0]):
            if number == 1:
                model.version = text(read_message(value).get(5, EMPTY))
            elif number == 5:
                entry = read_message(value)
                model.signatures[text(entry.get(1, EMPTY))] = _read_signature(entry.get(2, EMPTY))
        model.signatures.pop("__saved_model_init_op", None)
        return model


def _read_signature(signature: Value) -> tuple[list[TensorValue], list[TensorValue]]:
    inputs: list[TensorValue] = []
    outputs: list[TensorValue] = []
    for number, value in read_fields(signature):
        if number in (1, 2):
            entry = read_message(value)
            values = inputs if number == 1 else outputs
            values.append(_read_tensor(text(entry.get(1, EMPTY)), entry.get(2, EMPTY)))
        elif number == 4:  # inputs with default values are optional
            name = text(read_message(value).get(1, EMPTY))
            inputs[:] = [
                TensorValue(each.name, each.dtype, each.shape, each.optional or each.name == name)
                for each in inputs
            ]
    return sorted(inputs, key=lambda each: each.name), sorted(outputs, key=lambda each: each.name)


def _read_tensor(name: str, tensor: Value) -> TensorValue:
    entry = read_message(tensor)
    number = integer(entry.get(2, 0))
    dtype = DTYPES.get(number, f"dtype {number}")
    shape: list[int | None] = []
    for number, value in read_fields(entry.get(3, EMPTY)):
        if number == 2:
            size = signed(read_message(value).get(1, 0))
            shape.append(None if size < 0 else size)
        elif number == 3 and value:  # unknown_rank
            return TensorValue(name, dtype, None)
    return TensorValue(name, dtype, tuple(shape))
