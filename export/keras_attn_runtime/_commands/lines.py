"""Reads UTF-8 lines from a binary stream."""

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from keras_attn_runtime._errors import InputError

PART = 2**20
"""Maximum number of bytes in a line to read at once."""


def read_lines(
    stream: BinaryIO, errors: str = "strict", max_characters: int | None = None
) -> Iterator[str]:
    """Yields a binary stream's lines as strings, without their ends.

    A line ends with "\\n" or "\\r\\n". All other separators, such as U+2028 or "\\r" alone, are
    text. So the number of lines is the output of `wc -l`, plus one if the last line has no end. A
    byte order mark before the first line is removed.

    Args:
        stream: binary stream.
        errors: "strict", or "replace" to read each invalid byte sequence as U+FFFD.
        max_characters: int, maximum number of characters in a line. A longer line is cut a few
            characters after the limit, so that memory is bounded and the caller can see that it is
            too long. Invalid bytes after the limit are found too. Default: no limit.

    Raises:
        InputError: if a line is not UTF-8 and errors is "strict".
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
    """Returns a line's text, including its end. `part` is its first part."""
    # After a byte order mark and "\r\n" are removed, one character above the limit must remain.
    most = None if max_characters is None else max_characters + 4
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    text, num_bytes = "", 0
    while True:
        is_last = len(part) < PART or part.endswith(b"\n")
        # The previous part may have ended inside a character.
        begin = num_bytes - len(decoder.getstate()[0])
        try:
            text = (text + decoder.decode(part, final=is_last))[:most]
        except UnicodeDecodeError as error:
            raise InputError(
                index,
                f"expected UTF-8. Received: byte 0x{error.object[error.start]:02x} at byte "
                f"{begin + error.start} of the line. Convert the file to UTF-8, or replace the "
                "invalid bytes.",
            ) from error
        if is_last:
            return text
        num_bytes += len(part)
        part = stream.readline(PART)
