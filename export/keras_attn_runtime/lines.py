"""Decodes lines of bytes."""

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from keras_attn_runtime.errors import SentenceError

PART = 2**20
"""Bytes of a line that are read at once."""


def read_lines(
    stream: BinaryIO, errors: str = "strict", max_characters: int | None = None
) -> Iterator[str]:
    """Yields the lines of a binary stream as strings, without their ends.

    Only "\\n" ends a line, and one "\\r" before it belongs to it. All other separators, such as
    U+2028 or a "\\r" inside, are text: the number of lines is that of `wc -l` (plus one if the last
    is not ended). A byte order mark before the first line is dropped.

    Args:
        stream: binary stream.
        errors: "strict", or "replace" to read each invalid byte sequence as U+FFFD.
        max_characters: int, most characters of a line that are needed. Only the beginning of a
            longer line is kept, a few characters more, so that memory is bounded and the caller
            sees that it is longer. All of it is decoded, to find invalid bytes. Default: no limit.

    Raises:
        SentenceError: if a line is not UTF-8 and errors is "strict".
    """
    index = 0
    while part := stream.readline(PART):
        text = _line(part, stream, errors, max_characters, index)
        text = text.removesuffix("\n").removesuffix("\r")
        yield text if index else text.removeprefix("\ufeff")
        index += 1


def _line(
    part: bytes, stream: BinaryIO, errors: str, max_characters: int | None, index: int
) -> str:
    """Returns the text of a line with its end. The first part was read already."""
    # More by one, after a byte order mark and the two characters of the end are gone.
    most = None if max_characters is None else max_characters + 4
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    text, num_bytes = "", 0
    while True:
        is_last = len(part) < PART or part.endswith(b"\n")
        begin = num_bytes - len(decoder.getstate()[0])  # the last part may end in a character
        try:
            text = (text + decoder.decode(part, final=is_last))[:most]
        except UnicodeDecodeError as error:
            raise SentenceError(
                index,
                f"expected UTF-8. Received: byte 0x{error.object[error.start]:02x} at byte "
                f"{begin + error.start} of the line. Convert the file, or replace what is invalid.",
            ) from error
        if is_last:
            return text
        num_bytes += len(part)
        part = stream.readline(PART)
