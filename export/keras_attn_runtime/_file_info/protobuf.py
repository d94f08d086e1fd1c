"""The protobuf wire format."""

from collections.abc import Iterator
from typing import TypeAlias

from keras_attn_runtime._errors import ModelFileError

Value: TypeAlias = int | memoryview
"""A field value: a number, or the bytes of a string, a message or packed numbers."""

EMPTY = memoryview(b"")
"""The default for a string or a message."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}


def read_fields(message: Value) -> Iterator[tuple[int, Value]]:
    """Yields the fields in a serialized message, without parsing nested messages.

    Args:
        message: memoryview of bytes. An int raises an error.

    Yields:
        Tuples with a field number and its value.

    Raises:
        ModelFileError: if `message` is a number, or bytes that are not a protobuf message.
    """
    if isinstance(message, int):
        raise _malformed("a number in the place of a message")
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, position = _read_varint(message, position)
        elif kind == BYTES:
            size, position = _read_varint(message, position)
            value, position = message[position : position + size], position + size
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
            value, position = message[position : position + size], position + size
        else:
            raise _malformed(f"wire type {kind}")
        if number == 0 or position > len(message):
            raise _malformed(f"field {number} that ends after the message")
        yield number, value


def read_message(message: Value) -> dict[int, Value]:
    """Returns a dict from field numbers to values. For a repeated field, it has the last value."""
    return dict(read_fields(message))


def read_integers(value: Value) -> list[int]:
    """Returns the ints in one entry of a repeated field, which may be packed."""
    if isinstance(value, int):
        return [value]
    integers: list[int] = []
    position = 0
    while position < len(value):
        integer, position = _read_varint(value, position)
        integers.append(integer)
    return integers


def integer(value: Value) -> int:
    """Returns a numeric field's value."""
    if not isinstance(value, int):
        raise _malformed("bytes in the place of a number")
    return value


def signed(value: Value) -> int:
    """Converts a varint to a signed 64-bit integer."""
    value = integer(value)
    return value - 2**64 if value >= 2**63 else value


def text(value: Value) -> str:
    """Decodes a field's value as UTF-8."""
    if isinstance(value, int):
        raise _malformed("a number in the place of a string")
    return bytes(value).decode("utf-8", "replace")


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise _malformed("a number that ends after the message")
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
    raise _malformed("a number of more than 10 bytes")


def _malformed(what: str) -> ModelFileError:
    return ModelFileError(f"Expected a protobuf message. Received: {what}. The file is damaged.")
